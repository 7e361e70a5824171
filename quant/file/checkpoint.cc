// SPDX-License-Identifier: Apache-2.0
#include "quant/file/checkpoint.h"

#include <algorithm>

#include "quant/base/error.h"
#include "quant/file/sha256.h"
#include "quant/file/tensor_names.h"

namespace tare {
namespace {

namespace fs = std::filesystem;

bool IsFile(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

template <typename T>
const T* FindIn(const std::map<std::string, T>& values, std::string_view name) {
  const auto found = values.find(std::string(name));
  return found == values.end() ? nullptr : &found->second;
}

}  // namespace

Checkpoint::Checkpoint(const fs::path& path) : path_(path) {
  if (IsFile(path)) {
    quantized_.emplace(path);
  } else {
    folder_.emplace(path);
  }
}

const TensorView* Checkpoint::Find(std::string_view name) const {
  return folder_ ? folder_->Find(name) : FindIn(quantized_->tensors(), name);
}

const QuantizedMatrix* Checkpoint::FindQuantized(std::string_view name) const {
  return folder_ ? nullptr : FindIn(quantized_->matrices(), name);
}

std::vector<std::string> Checkpoint::names() const {
  if (folder_) return folder_->names();
  std::vector<std::string> names;
  for (const auto& [name, tensor] : quantized_->tensors()) names.push_back(name);
  for (const auto& [name, matrix] : quantized_->matrices()) names.push_back(name);
  std::ranges::sort(names);
  return names;
}

int64_t Checkpoint::total_bytes() const {
  if (folder_) return folder_->total_bytes();
  int64_t bytes = 0;
  for (const auto& [name, tensor] : quantized_->tensors()) bytes += static_cast<int64_t>(tensor.bytes.size());
  for (const auto& [name, m] : quantized_->matrices()) bytes += static_cast<int64_t>(m.Bytes());
  return bytes;
}

void Checkpoint::Release(const std::string& name) const {
  if (quantized_) return quantized_->Release(name);
  const TensorView* tensor = folder_->Find(name);
  if (tensor == nullptr) Fail("tensor '{}': not in this checkpoint", name);
  folder_->Release(*tensor);
}

std::string Checkpoint::ContentHash() const { return folder_ ? folder_->ContentHash() : Sha256OfFile(path_); }

std::optional<std::string> CheckpointText(const fs::path& path, const std::string& name) {
  std::error_code error;
  if (IsFile(path)) return QuantizedCheckpoint::FileOf(path, name);
  if (!fs::is_directory(path, error)) {
    Fail(
        "{}: not a folder; expected a checkpoint folder in Hugging Face layout (config.json, *.safetensors), or a file "
        "of tare quantize",
        path.string());
  }
  std::optional<std::string> text;
  if (fs::exists(path / name, error)) {
    const MappedFile file(path / name);
    text.emplace(file.text());
  }
  if (name != "config.json") return text;
  const std::optional<TensorNamesFile> names = TensorNamesFile::In(path);
  return names ? names->ConfigText(text, (path / name).string()) : text;
}

}  // namespace tare
