// SPDX-License-Identifier: Apache-2.0
// Writes a GGUF file of version 3 (container.h), whole or not at all. Tensors are made one at a time, so that one is in
// memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "quant/interchange/gguf/metadata_writer.h"
#include "quant/interchange/gguf/tensor_type.h"

namespace tare::gguf {

struct NewTensor {
  std::string name;
  const TypeInfo* type = nullptr;
  std::vector<int64_t> shape;  // the innermost last
  // Fills the tensor's bytes.
  std::function<void(std::span<std::byte> bytes)> fill;

  // Of whole blocks.
  int64_t Bytes() const;
};

// progress: bytes of tensors written so far and in all. Throws Error where llama.cpp would not read the file: names of
// more than 63 bytes.
void WriteGguf(const std::filesystem::path& path, const MetadataWriter& metadata, std::span<const NewTensor> tensors,
               const std::function<void(int64_t done, int64_t total)>& progress);

}  // namespace tare::gguf
