// SPDX-License-Identifier: Apache-2.0
// GGUF files, versions 2 and 3, little-endian (github.com/ggml-org/ggml/docs/gguf.md):
//
//   "GGUF", u32 version, u64 tensors, u64 keys
//   per key     text key, u32 type, value
//   per tensor  text name, u32 dimensions, u64 sizes (the innermost first), u32 type, u64 offset
//   padding to a multiple of general.alignment (32), then the tensors' bytes, to which offsets are relative
//
// Every rule is checked before use: a tensor's bytes are inside the file, aligned, and no other tensor's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quant/interchange/gguf/metadata.h"
#include "quant/interchange/gguf/tensor_type.h"

namespace tare::gguf {

struct Tensor {
  std::string_view name;
  const TypeInfo* type = nullptr;
  std::vector<int64_t> shape;        // the innermost last
  std::span<const std::byte> bytes;  // whole rows, one after another
};

struct Content {
  Metadata metadata;
  std::vector<Tensor> tensors;  // in the file's order
};

// Null if there is none.
const Tensor* FindTensor(std::span<const Tensor> tensors, std::string_view name);

// Parses the bytes of a whole file; the result points into them. `where` starts messages.
Content Parse(std::span<const std::byte> file, const std::string& where);

// Whether a file begins as a GGUF file does.
bool IsGguf(std::string_view first_bytes);

}  // namespace tare::gguf
