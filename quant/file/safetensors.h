// SPDX-License-Identifier: Apache-2.0
// safetensors files (github.com/huggingface/safetensors): 8 bytes with the header's length N, little-endian, at most
// 100,000,000; N bytes of JSON that begin with '{' and may end in spaces,
//
//   {"__metadata__": {"key": "text"}, "NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}
//
// and the tensors' bytes, to which offsets are relative. The tensors fill the rest of the file without hole or overlap.
// Every rule is checked before use, so a view never reaches outside its file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quant/file/dtype.h"
#include "quant/file/mapped_file.h"

namespace tare {

struct TensorView {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;  // not aligned

  size_t elements() const { return static_cast<size_t>(*ElementCount(shape)); }
};

struct SafetensorsContent {
  std::vector<TensorView> tensors;  // by name
  std::map<std::string, std::string> metadata;
};

// Parses the bytes of a whole file; the result points into them. `where` starts messages.
SafetensorsContent ParseSafetensors(std::span<const std::byte> file, const std::string& where);

class Safetensors {
 public:
  explicit Safetensors(const std::filesystem::path& path);

  const std::vector<TensorView>& tensors() const { return content_.tensors; }  // by name
  std::vector<std::string> names() const;                                      // sorted
  const TensorView* Find(std::string_view name) const;                         // null if missing
  const std::map<std::string, std::string>& metadata() const { return content_.metadata; }
  const MappedFile& file() const { return file_; }

 private:
  MappedFile file_;
  SafetensorsContent content_;
};

// A tensor whose bytes are made, perhaps in `memory`, when written, and live until the next's: files may exceed memory.
struct MadeTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::function<std::span<const std::byte>(std::vector<std::byte>& memory)> bytes;
};

// Writes tensors by falling width of type, then by name, each aligned to its type. Throws Error if bytes do not fit
// dtype and shape, or a name occurs twice. progress: bytes written so far and in all, after each.
void WriteSafetensors(const std::filesystem::path& path, std::vector<TensorView> tensors,
                      const std::map<std::string, std::string>& metadata = {});
void WriteMadeTensors(const std::filesystem::path& path, std::vector<MadeTensor> tensors,
                      const std::map<std::string, std::string>& metadata = {},
                      const std::function<void(int64_t done, int64_t total)>& progress = {});

}  // namespace tare
