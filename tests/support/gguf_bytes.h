// SPDX-License-Identifier: Apache-2.0
// Writes the bytes of GGUF files, right ones and wrong ones: keys and tensors in the order in which they are added.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tare {

class GgufBytes {
 public:
  template <typename T>
  static std::string Raw(T value) {
    return {reinterpret_cast<const char*>(&value), sizeof value};
  }
  static std::string Text(std::string_view text) { return Raw<uint64_t>(text.size()) + std::string(text); }
  static std::string Texts(const std::vector<std::string>& texts) {
    std::string bytes = Raw<uint32_t>(8) + Raw<uint64_t>(texts.size());
    for (const std::string& text : texts) bytes += Text(text);
    return bytes;
  }
  template <typename T>
  static std::string Numbers(uint32_t type, const std::vector<T>& numbers) {
    std::string bytes = Raw(type) + Raw<uint64_t>(numbers.size());
    for (const T number : numbers) bytes += Raw(number);
    return bytes;
  }

  // A value of a type (container.h) as it stands in the file.
  GgufBytes& Add(std::string_view key, uint32_t type, const std::string& value) {
    ++key_count_;
    keys_ += Text(key) + Raw(type) + value;
    return *this;
  }
  GgufBytes& AddText(std::string_view key, std::string_view text) { return Add(key, 8, Text(text)); }
  GgufBytes& AddNumber(std::string_view key, uint32_t number) { return Add(key, 4, Raw(number)); }
  GgufBytes& AddReal(std::string_view key, float number) { return Add(key, 6, Raw(number)); }
  GgufBytes& AddFlag(std::string_view key, bool flag) { return Add(key, 7, std::string(1, flag ? 1 : 0)); }
  GgufBytes& AddTexts(std::string_view key, const std::vector<std::string>& texts) { return Add(key, 9, Texts(texts)); }

  // Sizes as in the file, the innermost first.
  GgufBytes& AddTensor(std::string_view name, const std::vector<uint64_t>& sizes, uint32_t type,
                       const std::string& bytes) {
    AddTensorAt(name, sizes, type, data_.size());
    data_ += bytes;
    data_.resize((data_.size() + 31) / 32 * 32);
    return *this;
  }
  GgufBytes& AddTensorAt(std::string_view name, const std::vector<uint64_t>& sizes, uint32_t type, uint64_t offset) {
    ++tensor_count_;
    tensors_ += Text(name) + Raw<uint32_t>(static_cast<uint32_t>(sizes.size()));
    for (const uint64_t size : sizes) tensors_ += Raw(size);
    tensors_ += Raw(type) + Raw(offset);
    return *this;
  }
  // In f32.
  GgufBytes& AddFloats(std::string_view name, const std::vector<uint64_t>& sizes, std::span<const float> values) {
    return AddTensor(name, sizes, 0, {reinterpret_cast<const char*>(values.data()), values.size_bytes()});
  }

  std::string Bytes(uint32_t version = 3) const {
    std::string bytes = "GGUF" + Raw(version) + Raw(tensor_count_) + Raw(key_count_) + keys_ + tensors_;
    bytes.resize((bytes.size() + 31) / 32 * 32);
    return bytes + data_;
  }

 private:
  uint64_t key_count_ = 0, tensor_count_ = 0;
  std::string keys_, tensors_, data_;
};

}  // namespace tare
