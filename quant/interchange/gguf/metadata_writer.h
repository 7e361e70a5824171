// SPDX-License-Identifier: Apache-2.0
// The bytes of a GGUF file's keys and values (metadata.h), in the order in which they are added.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tare::gguf {

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

  uint64_t count() const { return count_; }
  const std::string& bytes() const { return bytes_; }
  const std::string& where() const { return where_; }

 private:
  void Begin(std::string_view key, uint32_t type);

  std::string where_, bytes_;
  std::vector<std::string> keys_;
  uint64_t count_ = 0;
};

}  // namespace tare::gguf
