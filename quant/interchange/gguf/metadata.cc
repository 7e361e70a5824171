// SPDX-License-Identifier: Apache-2.0
#include "quant/interchange/gguf/metadata.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "quant/base/error.h"
#include "quant/base/formatted.h"

namespace tare::gguf {
namespace {

constexpr int kMostNested = 4;  // arrays in arrays: files have none

bool IsPrintable(char c) { return c >= ' ' && c <= '~'; }

// 0 for texts and arrays, whose sizes vary.
size_t SizeOf(ValueType type) {
  switch (type) {
    case ValueType::kU8:
    case ValueType::kI8:
    case ValueType::kBool:
      return 1;
    case ValueType::kU16:
    case ValueType::kI16:
      return 2;
    case ValueType::kU32:
    case ValueType::kI32:
    case ValueType::kF32:
      return 4;
    case ValueType::kU64:
    case ValueType::kI64:
    case ValueType::kF64:
      return 8;
    case ValueType::kText:
    case ValueType::kArray:
      return 0;
  }
  TARE_CHECK(false);
}

ValueType TypeAt(Cursor& cursor, std::string_view key) {
  const auto type = cursor.Number<uint32_t>(key);
  if (type > static_cast<uint32_t>(ValueType::kF64))
    Fail("{}: key '{}': got a value of type {}, expected 0 to 12", cursor.where(), key, type);
  return static_cast<ValueType>(type);
}

// Leaves the cursor behind the elements.
Array ArrayAt(Cursor& cursor, std::string_view key, std::span<const std::byte> file, int depth) {
  if (depth > kMostNested)
    Fail("{}: key '{}': got arrays nested deeper than {}, expected fewer", cursor.where(), key, kMostNested);
  Array array{.type = TypeAt(cursor, key), .count = cursor.Number<uint64_t>(key), .bytes = {}};
  const size_t size = SizeOf(array.type), begin = cursor.at();
  const uint64_t least = size > 0 ? size : array.type == ValueType::kText ? 8 : 12;  // bytes of an element
  if (array.count > cursor.left() / least)
    Fail("{}: key '{}': got an array of {} elements, expected at most {}, as {} bytes are left", cursor.where(), key,
         array.count, cursor.left() / least, cursor.left());
  if (size > 0) cursor.Take(array.count * size, key);
  for (uint64_t i = 0; size == 0 && i < array.count; ++i) {
    if (array.type == ValueType::kText) {
      cursor.Text(key);
    } else {
      ArrayAt(cursor, key, file, depth + 1);
    }
  }
  array.bytes = file.subspan(begin, cursor.at() - begin);
  return array;
}

template <typename T>
T At(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

// Of a type with a size.
Value ScalarAt(ValueType type, const std::byte* bytes) {
  switch (type) {
    case ValueType::kU8:
      return uint64_t{At<uint8_t>(bytes)};
    case ValueType::kI8:
      return int64_t{At<int8_t>(bytes)};
    case ValueType::kU16:
      return uint64_t{At<uint16_t>(bytes)};
    case ValueType::kI16:
      return int64_t{At<int16_t>(bytes)};
    case ValueType::kU32:
      return uint64_t{At<uint32_t>(bytes)};
    case ValueType::kI32:
      return int64_t{At<int32_t>(bytes)};
    case ValueType::kF32:
      return double{At<float>(bytes)};
    case ValueType::kBool:
      return At<uint8_t>(bytes) != 0;
    case ValueType::kU64:
      return At<uint64_t>(bytes);
    case ValueType::kI64:
      return At<int64_t>(bytes);
    case ValueType::kF64:
      return At<double>(bytes);
    case ValueType::kText:
    case ValueType::kArray:
      break;
  }
  TARE_CHECK(false);
}

std::string TextOf(const Value& value) {
  struct Texts {
    std::string operator()(std::string_view text) const { return "'" + Shown(text) + "'"; }
    std::string operator()(const Array& array) const { return Formatted("an array of {} elements", array.count); }
    std::string operator()(bool flag) const { return flag ? "true" : "false"; }
    std::string operator()(uint64_t number) const { return Formatted("{}", number); }
    std::string operator()(int64_t number) const { return Formatted("{}", number); }
    std::string operator()(double number) const { return Formatted("{}", number); }
  };
  return std::visit(Texts(), value);
}

std::optional<double> RealOf(const Value& value) {
  if (const auto* number = std::get_if<double>(&value)) return *number;
  if (const auto* number = std::get_if<uint64_t>(&value)) return static_cast<double>(*number);
  if (const auto* number = std::get_if<int64_t>(&value)) return static_cast<double>(*number);
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? 1 : 0;
  return std::nullopt;
}

}  // namespace

std::span<const std::byte> Cursor::Take(uint64_t size, std::string_view what) {
  if (size > left())
    Fail("{}: {}: got {} bytes to the end of the file, expected {}; try downloading it again", where_,
         what.substr(0, 100), left(), size);
  const std::span<const std::byte> taken = bytes_.subspan(at_, static_cast<size_t>(size));
  at_ += static_cast<size_t>(size);
  return taken;
}

std::string_view Cursor::Text(std::string_view what) {
  const std::span<const std::byte> bytes = Take(Number<uint64_t>(what), what);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string_view Cursor::Name(std::string_view what) {
  constexpr size_t kMostShown = 1024;
  const std::string_view name = Text(what);
  if (name.size() > kMostShown || !std::ranges::all_of(name, IsPrintable))
    Fail("{}: {}: got '{}' of {} bytes, expected at most {} printable characters", where_, what, Shown(name),
         name.size(), kMostShown);
  return name;
}

std::string Shown(std::string_view text) {
  std::string shown(text.substr(0, 100));
  std::ranges::replace_if(shown, std::not_fn(IsPrintable), '?');
  return shown;
}

Metadata::Metadata(Cursor& cursor, uint64_t count) : where_(cursor.where()) {
  for (uint64_t i = 0; i < count; ++i) {
    const std::string_view key = cursor.Name("a key of the metadata");
    const ValueType type = TypeAt(cursor, key);
    Value value;
    if (type == ValueType::kText) {
      value = cursor.Text(key);
    } else if (type == ValueType::kArray) {
      value = ArrayAt(cursor, key, cursor.bytes(), 1);
    } else {
      value = ScalarAt(type, cursor.Take(SizeOf(type), key).data());
    }
    if (!values_.emplace(key, value).second) Fail("{}: key '{}': occurs twice, expected once", where_, key);
  }
}

const Value* Metadata::Find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

void Metadata::Wrong(std::string_view key, const Value& value, std::string_view expected) const {
  Fail("{}: {}: got {}, expected {}", where_, key, TextOf(value), expected);
}

std::optional<uint64_t> Metadata::Unsigned(std::string_view key, uint64_t most) const {
  const Value* const value = Find(key);
  if (value == nullptr) return std::nullopt;
  std::optional<uint64_t> number;
  if (const auto* u = std::get_if<uint64_t>(value)) number = *u;
  if (const auto* i = std::get_if<int64_t>(value); i != nullptr && *i >= 0) number = static_cast<uint64_t>(*i);
  if (!number || *number > most) Wrong(key, *value, Formatted("a number from 0 to {}", most));
  return number;
}

std::optional<double> Metadata::Real(std::string_view key) const {
  const Value* const value = Find(key);
  if (value == nullptr) return std::nullopt;
  const std::optional<double> number = RealOf(*value);
  if (!number || !std::isfinite(*number) || std::holds_alternative<bool>(*value)) Wrong(key, *value, "a finite number");
  return number;
}

std::optional<bool> Metadata::Flag(std::string_view key) const {
  const Value* const value = Find(key);
  if (value == nullptr) return std::nullopt;
  const bool* const flag = std::get_if<bool>(value);
  if (flag == nullptr) Wrong(key, *value, "true or false");
  return *flag;
}

std::optional<std::string_view> Metadata::Text(std::string_view key) const {
  const Value* const value = Find(key);
  if (value == nullptr) return std::nullopt;
  const auto* const text = std::get_if<std::string_view>(value);
  if (text == nullptr) Wrong(key, *value, "a text");
  return *text;
}

std::optional<std::vector<std::string_view>> Metadata::Texts(std::string_view key) const {
  const Value* const value = Find(key);
  if (value == nullptr) return std::nullopt;
  const auto* const array = std::get_if<Array>(value);
  if (array == nullptr || array->type != ValueType::kText) Wrong(key, *value, "an array of texts");
  std::vector<std::string_view> texts;
  Cursor cursor(array->bytes, where_);
  for (uint64_t i = 0; i < array->count; ++i) texts.push_back(cursor.Text(key));
  return texts;
}

std::optional<std::vector<double>> Metadata::Reals(std::string_view key) const {
  const Value* const value = Find(key);
  if (value == nullptr) return std::nullopt;
  const auto* const array = std::get_if<Array>(value);
  const size_t size = array == nullptr ? 0 : SizeOf(array->type);
  if (size == 0) Wrong(key, *value, "an array of numbers");
  std::vector<double> numbers;
  for (uint64_t i = 0; i < array->count; ++i)
    numbers.push_back(*RealOf(ScalarAt(array->type, array->bytes.data() + i * size)));
  return numbers;
}

}  // namespace tare::gguf
