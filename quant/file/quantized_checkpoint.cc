// SPDX-License-Identifier: Apache-2.0
#include "quant/file/quantized_checkpoint.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "quant/base/message.h"
#include "quant/format/hadamard.h"
#include "quant/format/pack.h"

namespace tare {
namespace {

constexpr std::string_view kSchema = "tare.quantized/6";
constexpr std::string_view kOlderSchemas[] = {"tare.quantized/5", "tare.quantized/4", "tare.quantized/3",
                                              "tare.quantized/2", "tare.quantized/1"};
constexpr std::string_view kFiles = "files/", kTensors = "tensors/", kCodes = "codes/", kScales = "scales/",
                           kTensorScales = "tensor_scales/", kZeros = "zeros/", kMinima = "minima/", kGrids = "grids/",
                           kClips = "clips/", kHadamard = "hadamard/", kUp = "low_rank_up/", kDown = "low_rank_down/";

std::string In(std::string_view group, const std::string& name) { return std::string(group) + name; }

// The name of the grid of scales that are stored in a byte.
std::string_view NameOf(ScaleType type) {
  if (type == ScaleType::kTwoLevelSigned) return "scale.e4m3.signed";
  return IsTwoLevel(type) ? "scale.e4m3" : "scale.e8m0";
}

// A table of what codes stand for, as /grids has it: the codes that the format's bits make, then IF4's of sevenths.
struct NamedGrid {
  std::string path;
  std::span<const float> values;
};
std::vector<NamedGrid> GridsOf(const Format& format) {
  const FormatInfo& info = Info(format);
  if (IsInteger(format)) return {};
  if (info.together > 1) return {{In(kGrids, Name(format)), LatticeMagnitudes()}};
  const size_t codes = size_t{1} << info.bits;
  std::vector<NamedGrid> grids{
      {In(kGrids, Name(format)), std::span(StoredValues(format)).first(info.grid.evenly.empty() ? codes : 2 * codes)}};
  if (format.scale != ScaleType::kF32)
    grids.push_back({In(kGrids, std::string(NameOf(format.scale))), ScaleValues(format.scale)});
  return grids;
}

// The parts of a rotation, for readers that do not make it themselves.
std::string SignsPath(int64_t n) { return Formatted("{}signs.{}", kHadamard, n); }
std::string MatrixPath(int64_t base) { return Formatted("{}matrix.{}", kHadamard, base); }
std::vector<int8_t> Int8(std::span<const float> signs) { return {signs.begin(), signs.end()}; }

}  // namespace

bool IsQuantizedSchema(std::string_view schema) {
  return schema == kSchema || std::ranges::contains(kOlderSchemas, schema);
}

QuantizedCheckpointWriter::QuantizedCheckpointWriter(const std::filesystem::path& path, const Provenance& p)
    : file_(path) {
  file_.SetAttribute("", "schema", std::string(kSchema));
  for (const auto& [name, text] : kProvenance) file_.SetAttribute("", name, p.*text);
}

void QuantizedCheckpointWriter::AddFile(const std::string& name, std::string_view bytes) {
  file_.WriteDataset(In(kFiles, name), DType::kU8, {static_cast<int64_t>(bytes.size())}, bytes.data());
}

void QuantizedCheckpointWriter::AddTensor(const TensorView& tensor) {
  const std::string name = In(kTensors, tensor.name);
  file_.WriteDataset(name, IsHalf(tensor.dtype) ? DType::kU16 : tensor.dtype, tensor.shape, tensor.bytes.data());
  file_.SetAttribute(name, "dtype", std::string(Name(tensor.dtype)));
}

void QuantizedCheckpointWriter::AddMatrix(const std::string& name, const QuantizedMatrix& m, Granularity granularity) {
  const std::string codes = In(kCodes, name), scales = In(kScales, name);
  file_.WriteDataset(codes, DType::kU8, {m.out, static_cast<int64_t>(m.RowBytes())}, m.codes);
  file_.SetAttribute(codes, "format", Name(m.format));
  file_.SetAttribute(codes, "granularity", Name(granularity));
  file_.SetAttribute(codes, "group", m.group);
  file_.SetAttribute(codes, "in", m.in);
  if (m.rotation != nullptr) {
    file_.SetAttribute(codes, "hadamard", m.rotation->run());
    const int64_t n = m.rotation->size(), base = m.rotation->base();
    const auto add = [&](const std::string& path, const std::vector<int64_t>& shape, std::span<const float> values) {
      if (shared_.insert(path).second) file_.WriteDataset(path, DType::kI8, shape, Int8(values).data());
    };
    add(SignsPath(n), {n}, m.rotation->signs());
    add(MatrixPath(base), {base, base}, m.rotation->paley());
  }
  if (m.format.scale == ScaleType::kF32) {
    file_.WriteDataset(scales, DType::kF32, {m.out, m.Groups()}, m.scales);
  } else {
    file_.WriteDataset(scales, DType::kU8, {m.out, m.Groups()}, m.scale_codes);
    file_.SetAttribute(scales, "grid", std::string(NameOf(m.format.scale)));
  }
  if (m.zeros != nullptr) file_.WriteDataset(In(kZeros, name), DType::kU8, {m.out, m.Groups()}, m.zeros);
  if (m.minima != nullptr) file_.WriteDataset(In(kMinima, name), DType::kF32, {m.out, m.Groups()}, m.minima);
  if (const LowRank& branch = m.branch; branch.rank > 0) {
    file_.WriteDataset(In(kUp, name), DType::kU16, {m.out, branch.rank}, branch.up);
    file_.WriteDataset(In(kDown, name), DType::kU16, {branch.rank, m.in}, branch.down);
    for (const std::string_view part : {kUp, kDown}) file_.SetAttribute(In(part, name), "dtype", "BF16");
  }
  if (IsTwoLevel(m.format.scale)) file_.WriteDataset(In(kTensorScales, name), DType::kF32, {1}, &m.of_tensor);
  for (const NamedGrid& grid : GridsOf(m.format)) {
    if (shared_.insert(grid.path).second) file_.WriteDataset<float>(grid.path, {std::ssize(grid.values)}, grid.values);
  }
}

void QuantizedCheckpointWriter::AddClips(const std::string& name, std::span<const float> values) {
  file_.WriteDataset<float>(In(kClips, name), {static_cast<int64_t>(values.size())}, values);
}

// Opens a file, and checks that it is one of ours and whole.
static Hdf5Reader Open(const std::filesystem::path& path) {
  Hdf5Reader file(path);
  const std::string where = path.string();
  const std::string schema = file.HasAttribute("", "schema") ? file.StringAttribute("", "schema") : "none";
  if (!IsQuantizedSchema(schema))
    Fail("{}: got an HDF5 file of schema {}, expected a checkpoint folder or a file of tare quantize ({})", where,
         schema, kSchema);
  if (!file.HasAttribute("", "complete") || file.IntAttribute("", "complete") != 1)
    Fail("{}: not marked complete; try making it again with tare quantize", where);
  return file;
}

QuantizedCheckpoint::QuantizedCheckpoint(const std::filesystem::path& path) : file_(Open(path)) {
  const std::string where = path.string();
  for (const auto& [name, text] : kProvenance) provenance_.*text = file_.StringAttribute("", name);
  for (const std::string& name : file_.datasets()) {
    if (name.starts_with(kTensors)) ReadTensor(name.substr(kTensors.size()));
    if (name.starts_with(kCodes)) ReadMatrix(name.substr(kCodes.size()));
    if (!name.starts_with(kClips)) continue;
    const std::vector<float>& clips = clips_[name.substr(kClips.size())] = file_.Read<float>(name);
    if (clips.empty()) Fail("{}: dataset '{}': got no value, expected at least one", where, name);
    for (const float clip : clips) {
      if (!std::isfinite(clip) || clip < 0)
        Fail("{}: dataset '{}': got {}, expected finite values, 0 or more", where, name, clip);
    }
  }
  for (const auto& [name, matrix] : matrices_) {
    if (tensors_.contains(name)) Fail("{}: '{}' occurs twice, stored and quantized; try making it again", where, name);
  }
}

void QuantizedCheckpoint::ReadTensor(const std::string& name) {
  const std::string path = In(kTensors, name), where = file_.path().string() + ": dataset '" + path + "'";
  const std::string type = file_.StringAttribute(path, "dtype");
  const std::optional<DType> dtype = ParseDType(type);
  if (!dtype || file_.Type(path) != (IsHalf(*dtype) ? DType::kU16 : *dtype))
    Fail("{}: got values of type {} declared as {}; try making the file again", where, Name(file_.Type(path)), type);
  tensors_[name] = {name, *dtype, file_.Shape(path), file_.Bytes(path)};
}

void QuantizedCheckpoint::ReadMatrix(const std::string& name) {
  const std::string codes = In(kCodes, name);
  const std::string where = file_.path().string() + ": dataset '" + codes + "'";
  const std::string format_name = file_.StringAttribute(codes, "format");
  const std::optional<Format> format = ParseMatrixFormat(format_name);
  if (!format) Fail("{}: got format {}, expected one that tare quantize writes", where, format_name);
  const std::vector<int64_t> shape = file_.Shape(codes);
  if (shape.size() != 2 || file_.Type(codes) != DType::kU8) Fail("{}: expected rows of u8", where);
  QuantizedMatrix m{.codes = reinterpret_cast<const uint8_t*>(file_.Bytes(codes).data()),
                    .format = *format,
                    .out = shape[0],
                    .in = file_.IntAttribute(codes, "in"),
                    .group = file_.IntAttribute(codes, "group")};
  CheckShape(m, where);
  if (static_cast<int64_t>(m.RowBytes()) != shape[1])
    Fail("{}: got rows of {} bytes, expected {} for {} codes of {}", where, shape[1], m.RowBytes(), m.in, format_name);
  ReadScales(name, where, m);
  const std::vector<int64_t> groups{m.out, m.Groups()};
  if (format->range == CodeRange::kZero) m.zeros = ReadValues<uint8_t>(In(kZeros, name), where, groups, "zero points");
  if (format->range == CodeRange::kMin) m.minima = ReadValues<float>(In(kMinima, name), where, groups, "minima");
  if (file_.HasAttribute(codes, "hadamard")) ReadRotation(codes, where, m);
  if (const std::string up = In(kUp, name); file_.Has(up)) {
    const std::vector<int64_t> factor = file_.Shape(up);
    const int64_t rank = m.branch.rank = factor.size() == 2 ? factor[1] : 0;
    m.branch.up = ReadValues<uint16_t>(up, where, {m.out, rank}, "low-rank factor");
    m.branch.down = ReadValues<uint16_t>(In(kDown, name), where, {rank, m.in}, "low-rank factor");
  }
  matrices_[name] = m;
}

// Its signs and matrix are Tare's own. They are in the file, so that what is made of them is not much larger than it.
void QuantizedCheckpoint::ReadRotation(const std::string& codes, const std::string& where, QuantizedMatrix& m) {
  const int64_t run = file_.IntAttribute(codes, "hadamard");
  if (run < 2 || run > std::numeric_limits<int>::max() || m.in % run != 0)
    Fail("{}: got runs of {} rotated channels in rows of {}, expected a divisor from 2 on; try making the file again",
         where, run, m.in);
  const auto part = [&](const std::string& path, const std::vector<int64_t>& shape) {
    if (!file_.Has(path) || file_.Type(path) != DType::kI8 || file_.Shape(path) != shape)
      Fail("{}: got no '{}' of i8 {}, expected it beside rotated codes; try making the file again", where, path,
           ShapeText(shape));
  };
  const int64_t base = Hadamard::BaseOf(run);
  part(SignsPath(m.in), {m.in});
  part(MatrixPath(base), {base, base});
  m.rotation = &PlanRotation(m.in, {static_cast<int>(run)});
  for (const auto& [path, values] :
       {std::pair{SignsPath(m.in), m.rotation->signs()}, std::pair{MatrixPath(base), m.rotation->paley()}}) {
    const std::vector<int8_t> own = Int8(values);
    if (checked_rotations_.insert(path).second && !std::ranges::equal(std::as_bytes(std::span(own)), file_.Bytes(path)))
      Fail("{}: got another '{}' than that of {} channels; try making the file again", where, path, m.in);
  }
}

// Values beside the codes, mapped.
template <typename T>
const T* QuantizedCheckpoint::ReadValues(const std::string& path, const std::string& where,
                                         const std::vector<int64_t>& shape, const char* what) const {
  constexpr const char* kType = sizeof(T) == 4 ? "f32" : sizeof(T) == 2 ? "u16" : "u8";
  if (!file_.Has(path)) Fail("{}: got no {}, expected '{}'; try making the file again", where, what, path);
  if (file_.Type(path) != DTypeOf<T>() || file_.Shape(path) != shape)
    Fail("{}: got {} of another shape or type, expected {} {}", where, what, kType, ShapeText(shape));
  const auto* values = reinterpret_cast<const T*>(file_.Bytes(path).data());
  if (reinterpret_cast<uintptr_t>(values) % alignof(T) != 0)
    Fail("{}: its {} are not aligned in the file; try making it again", where, what);
  return values;
}

void QuantizedCheckpoint::ReadScales(const std::string& name, const std::string& where, QuantizedMatrix& m) {
  const std::string scales = In(kScales, name), tensor_scale = In(kTensorScales, name);
  if (m.format.scale == ScaleType::kF32) {
    m.scales = ReadValues<float>(scales, where, {m.out, m.Groups()}, "scales");
  } else {
    m.scale_codes = ReadValues<uint8_t>(scales, where, {m.out, m.Groups()}, "scales");
  }
  if (IsTwoLevel(m.format.scale)) {
    const std::vector<float> of_tensor = file_.Read<float>(tensor_scale);
    if (of_tensor.size() != 1 || !std::isfinite(of_tensor[0]) || of_tensor[0] < 0)
      Fail("{}: got a bad f32 per tensor in '{}', expected one that is finite and 0 or more", where, tensor_scale);
    m.of_tensor = of_tensor[0];
  }
  // What the codes stand for is the format's own; the file has it for those who do not know the format.
  for (const NamedGrid& grid : GridsOf(m.format)) {
    const std::vector<float> values = file_.Read<float>(grid.path);
    const bool same =
        std::ranges::equal(values, grid.values, {}, std::bit_cast<uint32_t, float>, std::bit_cast<uint32_t, float>);
    if (!same)
      Fail("{}: got a grid in '{}' that is not that of {}; try making the file again", where, grid.path,
           Name(m.format));
  }
}

static std::optional<std::string_view> FileIn(const Hdf5Reader& file, const std::string& name) {
  const std::string path = In(kFiles, name);
  if (!file.Has(path)) return std::nullopt;
  return AsText(file.Bytes(path));
}

std::optional<std::string_view> QuantizedCheckpoint::File(const std::string& name) const { return FileIn(file_, name); }

std::optional<std::string> QuantizedCheckpoint::FileOf(const std::filesystem::path& path, const std::string& name) {
  const Hdf5Reader file = Open(path);
  return FileIn(file, name).transform([](std::string_view text) { return std::string(text); });
}

void QuantizedCheckpoint::Release(const std::string& name) const {
  if (!matrices_.contains(name)) return file_.Release(In(kTensors, name));
  file_.Release(In(kCodes, name));
  file_.Release(In(kScales, name));
  for (const std::string_view group : {kZeros, kMinima, kUp, kDown}) {
    if (file_.Has(In(group, name))) file_.Release(In(group, name));
  }
}

void QuantizedCheckpoint::Verify(const std::function<void(int64_t, int64_t, const char*)>& progress) const {
  file_.Verify([&](int64_t done, int64_t total) {
    if (progress) progress(done, total, "bytes");
  });
  int64_t decoded = 0;
  for (const auto& [name, m] : matrices_) {
    const std::string where = Formatted("{}: '{}'", file_.path().string(), name);
    std::vector<float> values(static_cast<size_t>(m.in));
    for (int64_t row = 0; row < m.out; ++row) DequantizeRow(m, row, values.data(), where);
    Release(name);
    if (progress) progress(++decoded, std::ssize(matrices_), "matrices");
  }
}

}  // namespace tare
