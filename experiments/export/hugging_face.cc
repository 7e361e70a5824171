// SPDX-License-Identifier: Apache-2.0
#include "experiments/export/hugging_face.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <deque>
#include <set>

#include "experiments/model/config/config.h"
#include "quant/base/float16.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "quant/checkpoint/checkpoint.h"
#include "quant/file/atomic_file.h"

namespace tare {
namespace {

class Folder {
 public:
  explicit Folder(const Checkpoint& source) : source_(source) {}

  void Add(const TensorView& tensor) { tensors_[tensor.name] = tensor; }
  bool WantsHalves(const std::string& name) const {
    const TensorView* stored = source_.Find(name);
    return stored != nullptr && IsHalf(stored->dtype);
  }
  // In the source's 16 bits, if it has the tensor so and they hold the values.
  void AddFloats(const std::string& name, const std::vector<int64_t>& shape, const WeightMatrix& matrix,
                 const std::string& where) {
    AlignedBuffer<char> values;
    const DenseMatrix dense = InFloat(matrix, Math::kF32, values, where);
    if (WantsHalves(name)) {
      const DType dtype = source_.Find(name)->dtype;
      const auto count = static_cast<size_t>(dense.out * dense.in);
      if (auto halves = Halves({static_cast<const float*>(dense.data), count}, dtype)) {
        rounded_.insert(name);
        return Add({name, dtype, shape, std::as_bytes(halves_.emplace_back(std::move(*halves)).span())});
      }
      too_wide_.insert(name);
    }
    Add({name, DType::kF32, shape, std::as_bytes(floats_.emplace_back(std::move(values)).span())});
  }
  // Puts the parts of a tensor together again, as other programs read it: in the parts' type, or in f32 if they differ.
  void Join(const FusedTensor& fused) {
    const auto has = [&](const Checkpoint::Rows& rows) { return tensors_.contains(rows.name); };
    if (!std::ranges::all_of(fused.parts, has)) return;
    std::vector<TensorView> parts;
    for (const Checkpoint::Rows& rows : fused.parts) {
      parts.push_back(tensors_.extract(rows.name).mapped());
      for (std::set<std::string>* names : {&rounded_, &too_wide_}) {
        if (names->erase(rows.name) > 0) names->insert(fused.name);
      }
    }
    const bool alike = std::ranges::all_of(parts, [&](const TensorView& part) { return part.dtype == parts[0].dtype; });
    if (!alike) std::ranges::transform(parts, parts.begin(), [&](const TensorView& part) { return AsFloats(part); });
    Add(JoinedTensor(fused, parts, joined_.emplace_back()));
  }
  ExportSummary Write(const std::filesystem::path& path, const Provenance& p) {
    ExportSummary summary;
    std::vector<TensorView> tensors;
    for (const auto& [name, tensor] : tensors_) {
      tensors.push_back(tensor);
      ++summary.tensors[tensor.dtype];
      summary.bytes += static_cast<int64_t>(tensor.bytes.size());
      if (too_wide_.contains(name)) ++summary.too_wide;
      if (rounded_.contains(name) && !too_wide_.contains(name)) ++summary.rounded[tensor.dtype];
    }
    WriteSafetensors(path, std::move(tensors), TensorMetadata(p));
    return summary;
  }

 private:
  TensorView AsFloats(const TensorView& tensor) {
    const std::string where = Formatted("tensor '{}'", tensor.name);
    AlignedBuffer<char>& values = floats_.emplace_back();
    InFloat(StoredMatrix(tensor, where), Math::kF32, values, where);
    return {tensor.name, DType::kF32, tensor.shape, std::as_bytes(values.span())};
  }

  const Checkpoint& source_;
  std::map<std::string, TensorView> tensors_;
  std::set<std::string> rounded_, too_wide_;  // names
  std::deque<AlignedBuffer<char>> floats_;
  std::deque<AlignedBuffer<uint16_t>> halves_;
  std::deque<AlignedBuffer<std::byte>> joined_;
};

}  // namespace

std::vector<std::string> ExportedFiles() {
  std::vector<std::string> names{"model.safetensors", "config.json"};
  names.insert(names.end(), kTokenizerFiles.begin(), kTokenizerFiles.end());
  return names;
}

void CopyTokenizer(const std::filesystem::path& model, const std::filesystem::path& folder) {
  for (const char* name : kTokenizerFiles) {
    if (const auto text = CheckpointText(model, name)) WriteFileAtomically(folder / name, *text);
  }
}

std::optional<AlignedBuffer<uint16_t>> Halves(std::span<const float> values, DType dtype) {
  const bool is_bf16 = dtype == DType::kBF16;
  const float unit = is_bf16 ? 0x1p-8f : 0x1p-11f;
  AlignedBuffer<uint16_t> halves(values.size());
  std::atomic<bool> kept = true;
  constexpr size_t kPart = 65536;
  ParallelFor((values.size() + kPart - 1) / kPart, [&](size_t part, int) {
    for (size_t i = part * kPart; i < std::min(values.size(), (part + 1) * kPart); ++i) {
      const float x = values[i];
      halves[i] = is_bf16 ? Bf16FromFloat(x) : F16FromFloat(x);
      const float rounded = is_bf16 ? FloatFromBf16(halves[i]) : FloatFromF16(halves[i]);
      if (!(std::abs(rounded - x) <= std::abs(x) * unit)) kept = false;
    }
  });
  if (!kept) return std::nullopt;
  return halves;
}

std::map<std::string, std::string> TensorMetadata(const Provenance& p) {
  return {{"format", "pt"}, {"tare.plan", p.plan}, {"tare.method", p.method}, {"tare.source", p.source}};
}

ExportSummary ExportDequantized(const std::filesystem::path& quantized, const std::filesystem::path& source,
                                const std::filesystem::path& folder) {
  const QuantizedCheckpoint file(quantized);
  const ModelConfig config = LoadConfig(quantized);
  if (config.experts > 0)
    Fail("{}: got a model with experts, expected one without: tensors of all experts are not put together again",
         quantized.string());
  std::filesystem::create_directory(folder);
  const Checkpoint from = OpenSplit(source, LoadConfig(source));
  Folder out(from);
  const auto where = [&](const std::string& name) { return Formatted("{}: '{}'", quantized.string(), name); };
  for (const auto& [name, tensor] : file.tensors()) {
    if (tensor.dtype == DType::kF32 && out.WantsHalves(name)) {
      out.AddFloats(name, tensor.shape, StoredMatrix(tensor, where(name)), where(name));
    } else {
      out.Add(tensor);
    }
  }
  for (const auto& [name, m] : file.matrices()) {
    out.AddFloats(name, {m.out, m.in}, WeightMatrix(&m), where(name));
    file.Release(name);
  }
  for (const FusedTensor& fused : FusedTensors(config)) out.Join(fused);
  const ExportSummary summary = out.Write(folder / "model.safetensors", file.provenance());
  CopyTokenizer(quantized, folder);
  if (const auto text = file.File("config.json")) WriteFileAtomically(folder / "config.json", *text);
  return summary;
}

std::string WrittenText(const ExportSummary& summary) {
  std::string text;
  for (const auto& [dtype, count] : summary.tensors) {
    text += Formatted("{}{}{} in {}", text.empty() ? "" : "; ", count, text.empty() ? " tensors" : "", Name(dtype));
    const auto rounded = summary.rounded.find(dtype);
    if (rounded != summary.rounded.end()) text += Formatted(", {} of them rounded to nearest", rounded->second);
    if (dtype == DType::kF32 && summary.too_wide > 0)
      text += Formatted(", {} of them with values that the source's type cannot hold", summary.too_wide);
  }
  return text;
}

void RefuseBranch(const QuantizedMatrix& matrix, const std::string& where, std::string_view format) {
  if (matrix.branch.rank > 0)
    Fail(
        "{}: got codes with a low-rank branch, expected codes alone, as {} has none; try tare quantize --format "
        "safetensors",
        where, format);
}

TensorView JoinedTensor(const FusedTensor& fused, std::span<const TensorView> parts, AlignedBuffer<std::byte>& memory) {
  TensorView whole = parts.front();
  whole.name = fused.name;
  const size_t axis = fused.rows_of_columns > 0 ? 1 : 0;  // along which parts follow each other
  const auto pieces = static_cast<size_t>(axis == 1 ? whole.shape[0] : 1);
  whole.shape[axis] = 0;
  size_t size = 0;
  for (const TensorView& part : parts) {
    TARE_CHECK(part.dtype == whole.dtype && part.shape.size() == whole.shape.size());
    for (size_t i = 0; i < whole.shape.size(); ++i) TARE_CHECK(i == axis || part.shape[i] == whole.shape[i]);
    whole.shape[axis] += part.shape[axis];
    size += part.bytes.size();
  }
  memory = AlignedBuffer<std::byte>(size);
  std::byte* end = memory.data();
  for (size_t piece = 0; piece < pieces; ++piece) {
    for (const TensorView& part : parts) {
      const size_t bytes = part.bytes.size() / pieces;
      end = std::ranges::copy(part.bytes.subspan(piece * bytes, bytes), end).out;
    }
  }
  whole.bytes = memory.span();
  return whole;
}

std::optional<QuantizedMatrixBuffer> JoinedMatrix(std::span<const QuantizedMatrix* const> parts) {
  const QuantizedMatrix& first = *parts.front();
  const bool alike = std::ranges::all_of(parts, [&](const QuantizedMatrix* m) {
    return m->format == first.format && m->in == first.in && m->group == first.group &&
           m->of_tensor == first.of_tensor && m->rotation == first.rotation &&
           (m->scale_codes == nullptr) == (first.scale_codes == nullptr);
  });
  return alike ? std::optional<QuantizedMatrixBuffer>(parts) : std::nullopt;
}

}  // namespace tare
