// SPDX-License-Identifier: Apache-2.0
// The metadata of a GGUF file: values by key, each a number, a flag, a text or an array. Texts and arrays point into
// the file. Reading checks every length against the bytes that are left, so that memory is bounded by the file's size.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tare::gguf {

// In the order of their numbers in files.
enum class ValueType : uint32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kText, kArray, kU64, kI64, kF64 };

// Reads the bytes of a file in order. Throws Error, starting with `where`, if they end too early.
class Cursor {
 public:
  Cursor(std::span<const std::byte> bytes, std::string where) : bytes_(bytes), where_(std::move(where)) {}

  template <typename T>
  T Number(std::string_view what) {
    T value;
    const std::span<const std::byte> bytes = Take(sizeof(T), what);
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<std::byte*>(&value));
    return value;
  }
  std::string_view Text(std::string_view what);  // 8 bytes of length before it
  // A text by which messages call something: at most 1024 characters of printable ASCII.
  std::string_view Name(std::string_view what);
  std::span<const std::byte> Take(uint64_t size, std::string_view what);

  std::span<const std::byte> bytes() const { return bytes_; }  // all of them
  size_t at() const { return at_; }
  size_t left() const { return bytes_.size() - at_; }
  const std::string& where() const { return where_; }

 private:
  std::span<const std::byte> bytes_;
  size_t at_ = 0;
  std::string where_;
};

// The beginning of a text for messages, with ? for what is not printable ASCII.
std::string Shown(std::string_view text);

// Elements of one type, not aligned; those of an array of arrays are kept as bytes.
struct Array {
  ValueType type = ValueType::kU8;
  uint64_t count = 0;
  std::span<const std::byte> bytes;
};

using Value = std::variant<uint64_t, int64_t, double, bool, std::string_view, Array>;

// The values of one file.
class Metadata {
 public:
  Metadata() = default;
  Metadata(Cursor& cursor, uint64_t count);

  // Each throws Error, naming the key, for a value of another kind or out of range; nullopt if there is none.
  std::optional<uint64_t> Unsigned(std::string_view key, uint64_t most) const;
  std::optional<double> Real(std::string_view key) const;  // finite
  std::optional<bool> Flag(std::string_view key) const;
  std::optional<std::string_view> Text(std::string_view key) const;
  std::optional<std::vector<std::string_view>> Texts(std::string_view key) const;
  // Of an array of numbers or flags.
  std::optional<std::vector<double>> Reals(std::string_view key) const;

  const std::map<std::string_view, Value>& values() const { return values_; }
  const std::string& where() const { return where_; }

 private:
  const Value* Find(std::string_view key) const;
  template <typename T>
  std::optional<T> Of(std::string_view key, std::string_view expected) const;
  [[noreturn]] void Wrong(std::string_view key, const Value& value, std::string_view expected) const;

  std::string where_;
  std::map<std::string_view, Value> values_;
};

}  // namespace tare::gguf
