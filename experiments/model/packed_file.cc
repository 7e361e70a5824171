// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/packed_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <sstream>
#include <utility>

#include "quant/base/error.h"
#include "quant/base/formatted.h"
#include "quant/base/interrupt.h"
#include "quant/base/parallel.h"
#include "quant/file/json.h"
#include "quant/file/sha256.h"

namespace tare {
namespace {

constexpr std::string_view kSchema = "tare.packed/2";
constexpr std::array<std::string_view, 5> kOwnKeys{"schema", "weights_sha256", "config_sha256", "rules", "math"};
// Of a tensor's entry in the header, beside its name: three numbers of shape and two offsets of 20 digits at most, and
// 60 characters of JSON; of a matrix's metadata: a format, three numbers and 64 digits.
constexpr int64_t kEntry = 5 * 20 + 80, kDescription = 170;
constexpr int64_t kStart = 4096;  // of data: a page, so that codes lie as they do in memory

template <typename T>
std::string_view AsText(std::span<const T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

std::string HashOf(const PackedMatrix::Parts& parts) {
  Sha256 hash;
  hash.Add(std::as_bytes(parts.codes));
  hash.Add(std::as_bytes(parts.scales));
  hash.Add(std::as_bytes(parts.offsets));
  return hash.Hex();
}

int64_t RoomFor(const PackedSource& source, const std::vector<std::string>& names) {
  int64_t bytes = 8 + 1024 + 2 * std::ssize(source.rules);  // a character of a rule may be escaped
  for (const std::string& name : names) bytes += 3 * kEntry + kDescription + 24 * std::ssize(name);
  return (bytes + kStart - 1) / kStart * kStart;
}

Safetensors Opened(const std::filesystem::path& path) {
  try {
    return Safetensors(path);
  } catch (const Error& error) {
    Fail("packed codes, {}; or try again without the file", error.what());
  }
}

}  // namespace

PackedFileWriter::PackedFileWriter(const std::filesystem::path& path, PackedSource source,
                                   const std::vector<std::string>& names)
    : file_(path), header_bytes_(RoomFor(source, names)) {
  metadata_ = {{"schema", std::string(kSchema)},
               {"weights_sha256", std::move(source.weights_sha256)},
               {"config_sha256", std::move(source.config_sha256)},
               {"rules", std::move(source.rules)},
               {"math", std::move(source.math)}};
}

void PackedFileWriter::AddTensor(const std::string& name, std::string_view dtype, const std::vector<int64_t>& shape,
                                 std::string_view bytes) {
  const int64_t begin = tensors_.empty() ? 0 : tensors_.back().end;
  file_.WriteAt(header_bytes_ + begin, bytes);
  tensors_.push_back({name, std::string(dtype), shape, begin, begin + std::ssize(bytes)});
}

void PackedFileWriter::Add(const std::string& name, const PackedMatrix& matrix) {
  ThrowIfStopped();
  const PackedMatrix::Parts parts = matrix.parts();
  const std::vector<int64_t> scales{matrix.Panels(), matrix.Groups(), PackedMatrix::kPanel};
  AddTensor(name + ".codes", "U8", {matrix.Panels(), static_cast<int64_t>(matrix.PanelBytes())}, AsText(parts.codes));
  AddTensor(name + ".scales", "F32", scales, AsText(parts.scales));
  if (!parts.offsets.empty()) AddTensor(name + ".offsets", "F32", scales, AsText(parts.offsets));
  metadata_[name] = Formatted("{} {} {} {} {}", Name(parts.format), parts.out, parts.in, parts.groups, HashOf(parts));
}

void PackedFileWriter::Commit() {
  nlohmann::ordered_json header{{"__metadata__", metadata_}};
  for (const Tensor& tensor : tensors_)
    header[tensor.name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {tensor.begin, tensor.end}}};
  std::string text = header.dump();
  TARE_CHECK(std::ssize(text) <= header_bytes_ - 8);
  text.resize(static_cast<size_t>(header_bytes_ - 8), ' ');
  const uint64_t length = text.size();
  file_.WriteAt(0, AsText(std::span(&length, 1)));
  file_.WriteAt(8, text);
  file_.Commit();
}

PackedFile::PackedFile(const std::filesystem::path& path, PackedSource source)
    : source_(std::move(source)), file_(Opened(path)) {
  CheckSource(path.string());
  for (const auto& [name, description] : file_.metadata()) {
    if (!std::ranges::contains(kOwnKeys, name)) matrices_[name] = PartsOf(name, description);
  }
  const std::vector<std::pair<std::string, PackedMatrix::Parts>> all(matrices_.begin(), matrices_.end());
  ParallelFor(all.size(), [&](size_t i, int) {
    ThrowIfStopped();
    const auto& [name, parts] = all[i];
    if (!file_.metadata().at(name).ends_with(HashOf(parts)))
      Fail("{}: got other codes of '{}' than were written, expected those; try again without the file", path.string(),
           name);
  });
}

void PackedFile::CheckSource(const std::string& where) const {
  const auto text = [&](const std::string& key) {
    const auto found = file_.metadata().find(key);
    return found == file_.metadata().end() ? std::string() : found->second;
  };
  if (text("schema") != kSchema)
    Fail("{}: got schema '{}', expected '{}'; try another name for the packed codes", where, text("schema"), kSchema);
  if (text("weights_sha256") != source_.weights_sha256 || text("config_sha256") != source_.config_sha256)
    Fail("{}: got packed codes of another checkpoint, expected MODEL's; try another name", where);
  if (text("rules") != source_.rules)
    Fail("{}: got packed codes under '{}', expected '{}'; try another name", where, text("rules"), source_.rules);
  if (text("math") != source_.math)
    Fail("{}: got packed codes of --math {}, expected {}; try another name", where, text("math"), source_.math);
}

PackedMatrix::Parts PackedFile::PartsOf(const std::string& name, std::string_view described) const {
  std::istringstream words{std::string(described)};
  std::string format, hash;
  PackedMatrix::Parts parts;
  words >> format >> parts.out >> parts.in >> parts.groups >> hash;
  const std::optional<Format> known = ParseMatrixFormat(format);
  const TensorView* const codes = file_.Find(name + ".codes");
  const TensorView* const scales = file_.Find(name + ".scales");
  if (!words || !known || hash.size() != 64 || codes == nullptr || scales == nullptr)
    Fail(
        "{}: got '{}' of '{}' without its tensors, expected a format, three numbers and a hash; try again without the "
        "file",
        file_.file().path().string(), described, name);
  parts.format = *known;
  const auto floats = [](const TensorView& tensor) {
    return std::span(reinterpret_cast<const float*>(tensor.bytes.data()), tensor.bytes.size() / sizeof(float));
  };
  parts.codes = {reinterpret_cast<const uint8_t*>(codes->bytes.data()), codes->bytes.size()};
  parts.scales = floats(*scales);
  if (const TensorView* const offsets = file_.Find(name + ".offsets")) parts.offsets = floats(*offsets);
  return parts;
}

std::optional<PackedMatrix> PackedFile::Find(const std::string& name) const {
  const auto found = matrices_.find(name);
  if (found == matrices_.end()) return std::nullopt;
  try {
    return PackedMatrix(found->second);
  } catch (const Error& error) {
    Fail("{}: '{}': {}; try again without the file", file_.file().path().string(), name, error.what());
  }
}

}  // namespace tare
