// SPDX-License-Identifier: Apache-2.0
// WriteSafetensors of safetensors.h.
#include <algorithm>

#include "quant/base/error.h"
#include "quant/file/atomic_file.h"
#include "quant/file/json.h"
#include "quant/file/safetensors.h"

namespace tare {
namespace {

constexpr size_t kDataAlignment = 8;  // of the first tensor: the widest type's

std::string Padded(const nlohmann::ordered_json& header, const std::string& where) try {
  std::string text = header.dump();
  text.resize((text.size() + kDataAlignment - 1) / kDataAlignment * kDataAlignment, ' ');
  return text;
} catch (const nlohmann::json::exception&) {
  Fail("{}: got a name or metadata that are not UTF-8, expected UTF-8", where);
}

std::string HeaderOf(const std::vector<TensorView>& tensors, const std::map<std::string, std::string>& metadata,
                     const std::string& where) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  size_t offset = 0;
  for (const TensorView& tensor : tensors) {
    if (tensor.name == "__metadata__" || header.contains(tensor.name)) {
      Fail("{}: tensor '{}': the name is taken; try another", where, tensor.name);
    }
    if (ByteCount(tensor.dtype, tensor.shape) != static_cast<int64_t>(tensor.bytes.size())) {
      Fail("{}: tensor '{}': got {} bytes, which is not what {} of shape {} takes", where, tensor.name,
           tensor.bytes.size(), Name(tensor.dtype), ShapeText(tensor.shape));
    }
    header[tensor.name] = {{"dtype", Name(tensor.dtype)},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, offset + tensor.bytes.size()}}};
    offset += tensor.bytes.size();
  }
  return Padded(header, where);
}

std::string_view AsText(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

void WriteSafetensors(const std::filesystem::path& path, std::vector<TensorView> tensors,
                      const std::map<std::string, std::string>& metadata,
                      const std::function<void(int64_t, int64_t)>& progress) {
  std::ranges::sort(tensors, {}, [](const TensorView& tensor) { return std::pair(-Bits(tensor.dtype), tensor.name); });
  const std::string header = HeaderOf(tensors, metadata, path.string());
  const uint64_t length = header.size();
  AtomicFile file(path);
  file.Write(AsText(std::as_bytes(std::span(&length, 1))));
  file.Write(header);
  int64_t written = 0, all = 0;
  for (const TensorView& tensor : tensors) all += std::ssize(tensor.bytes);
  for (const TensorView& tensor : tensors) {
    file.Write(AsText(tensor.bytes));
    written += std::ssize(tensor.bytes);
    if (progress) progress(written, all);
  }
  file.Commit();
}

}  // namespace tare
