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
#include <string_view>
#include <vector>

#include "quant/interchange/gguf/container.h"

namespace tare::gguf {

// The bytes of keys and values (container.h), in the order in which they are added.
class MetadataWriter {
 public:
  // Throws Error, starting with `where`, for a key that is there already, or that files cannot have.
  explicit MetadataWriter(std::string where) : where_(std::move(where)) {}

  void Text(std::string_view key, std::string_view value);
  void Number(std::string_view key, int64_t value);  // of 0 to 2^32 - 1
  void Real(std::string_view key, double value);     // as f32
  void Flag(std::string_view key, bool value);
  void Texts(std::string_view key, std::span<const std::string> values);
  void Reals(std::string_view key, std::span<const float> values);
  void Integers(std::string_view key, std::span<const int32_t> values);
  void Flags(std::string_view key, const std::vector<bool>& values);

  uint64_t count() const { return keys_.size(); }
  const std::string& bytes() const { return bytes_; }
  const std::string& where() const { return where_; }

 private:
  template <typename T>
  void One(std::string_view key, ValueType type, T value);
  template <typename T, typename List>
  void All(std::string_view key, ValueType type, const List& values);

  std::string where_, bytes_;
  std::vector<std::string> keys_;
};

struct NewTensor {
  std::string name;
  const TypeInfo* type = nullptr;
  std::vector<int64_t> shape;  // the innermost last
  // Fills the tensor's bytes.
  std::function<void(std::span<std::byte> bytes)> fill;

  // The size of the tensor, which is whole blocks.
  int64_t Bytes() const;
};

// progress: bytes of tensors written so far and in all. Throws Error where llama.cpp would not read the file: names of
// more than 63 bytes.
void WriteGguf(const std::filesystem::path& path, const MetadataWriter& metadata, std::span<const NewTensor> tensors,
               const std::function<void(int64_t done, int64_t total)>& progress);

}  // namespace tare::gguf
