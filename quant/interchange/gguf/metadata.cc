// SPDX-License-Identifier: Apache-2.0
// Readers of scalars and arrays, Cursor (a place in a file), Metadata (values by key), and an architecture's keys.
#include "quant/interchange/gguf/container.h"

#include <cmath>

#include "quant/base/find_in.h"
#include "quant/base/message.h"

namespace tare::gguf {
namespace {

constexpr uint64_t kMostInConfig = (uint64_t{1} << 31) - 1;  // of a number in config.json
constexpr int kMostNested = 4;                               // arrays in arrays: files have none

bool IsPrintable(char c) { return c >= ' ' && c <= '~'; }

template <typename T, typename As>
Value At(const std::byte* bytes) {
  return static_cast<As>(Load<T>(bytes));
}

struct Scalar {
  size_t size;  // 0 for texts and arrays, whose sizes vary
  Value (*at)(const std::byte* bytes);
};
template <typename T, typename As>
constexpr Scalar kScalar{sizeof(T), At<T, As>};

// In the order of ValueType.
constexpr Scalar kScalars[]{kScalar<uint8_t, uint64_t>,
                            kScalar<int8_t, int64_t>,
                            kScalar<uint16_t, uint64_t>,
                            kScalar<int16_t, int64_t>,
                            kScalar<uint32_t, uint64_t>,
                            kScalar<int32_t, int64_t>,
                            kScalar<float, double>,
                            kScalar<uint8_t, bool>,
                            {},
                            {},
                            kScalar<uint64_t, uint64_t>,
                            kScalar<int64_t, int64_t>,
                            kScalar<double, double>};

const Scalar& ScalarOf(ValueType type) { return kScalars[static_cast<size_t>(type)]; }

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
  const size_t size = ScalarOf(array.type).size, begin = cursor.at();
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

struct TextOf {
  std::string operator()(std::string_view text) const { return "'" + Shown(text) + "'"; }
  std::string operator()(const Array& array) const { return Formatted("an array of {} elements", array.count); }
  std::string operator()(const auto& number) const { return Formatted("{}", number); }  // or "true" or "false"
};

struct RealOf {
  std::optional<double> operator()(std::string_view) const { return std::nullopt; }
  std::optional<double> operator()(const Array&) const { return std::nullopt; }
  std::optional<double> operator()(const auto& number) const { return static_cast<double>(number); }  // flags: 0 or 1
};

}  // namespace

std::span<const std::byte> Cursor::Take(uint64_t size, std::string_view what) {
  if (size > left())
    Fail("{}: {}: got {} bytes to the end of the file, expected {}; try downloading it again", where_,
         what.substr(0, 100), left(), size);
  const std::span<const std::byte> taken = bytes_.subspan(at_, static_cast<size_t>(size));
  at_ += static_cast<size_t>(size);
  return taken;
}

std::string_view Cursor::Text(std::string_view what) { return AsText(Take(Number<uint64_t>(what), what)); }

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
      value = ScalarOf(type).at(cursor.Take(ScalarOf(type).size, key).data());
    }
    if (!values_.emplace(key, value).second) Fail("{}: key '{}': occurs twice, expected once", where_, key);
  }
}

const Value* Metadata::Find(std::string_view key) const { return FindIn(values_, key); }

void Metadata::Wrong(std::string_view key, const Value& value, std::string_view expected) const {
  Fail("{}: {}: got {}, expected {}", where_, key, std::visit(TextOf(), value), expected);
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
  const std::optional<double> number = std::visit(RealOf(), *value);
  if (!number || !std::isfinite(*number) || std::holds_alternative<bool>(*value)) Wrong(key, *value, "a finite number");
  return number;
}

template <typename T>
std::optional<T> Metadata::Of(std::string_view key, std::string_view expected) const {
  const Value* const value = Find(key);
  if (value == nullptr) return std::nullopt;
  const T* const held = std::get_if<T>(value);
  if (held == nullptr) Wrong(key, *value, expected);
  return *held;
}

std::optional<bool> Metadata::Flag(std::string_view key) const { return Of<bool>(key, "true or false"); }
std::optional<std::string_view> Metadata::Text(std::string_view key) const {
  return Of<std::string_view>(key, "a text");
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
  const size_t size = array == nullptr ? 0 : ScalarOf(array->type).size;
  if (size == 0) Wrong(key, *value, "an array of numbers");
  std::vector<double> numbers;
  for (uint64_t i = 0; i < array->count; ++i)
    numbers.push_back(*std::visit(RealOf(), ScalarOf(array->type).at(array->bytes.data() + i * size)));
  return numbers;
}

bool ArchitectureKeys::IsArray(std::string_view key) const {
  const Value* const value = FindIn(metadata_.values(), Name(key));
  return value != nullptr && std::holds_alternative<Array>(*value);
}

std::optional<int64_t> ArchitectureKeys::Number(std::string_view key) {
  const std::string name = Used(key);
  if (!IsArray(key)) {
    const std::optional<uint64_t> value = metadata_.Unsigned(name, kMostInConfig);
    return value ? std::optional(static_cast<int64_t>(*value)) : std::nullopt;
  }
  const std::vector<double> by_layer = *metadata_.Reals(name);
  if (by_layer.empty() || std::ranges::adjacent_find(by_layer, std::not_equal_to()) != by_layer.end() ||
      !(by_layer[0] >= 0 && by_layer[0] <= static_cast<double>(kMostInConfig)))
    Fail("{}: {}: got numbers that differ by layer, expected one", where(), name);
  return static_cast<int64_t>(by_layer[0]);
}

int64_t ArchitectureKeys::Need(std::string_view key) {
  const std::optional<int64_t> value = Number(key);
  if (!value || *value == 0)
    Fail("{}: {}: got {}, expected a positive number; the model cannot be built without it", where(), Name(key),
         value ? "0" : "nothing");
  return *value;
}

std::optional<double> ArchitectureKeys::Real(std::string_view key) {
  const std::optional<double> value = metadata_.Real(Used(key));
  if (!value) return std::nullopt;
  const auto rounded = static_cast<float>(*value);
  if (!std::isfinite(rounded)) Fail("{}: {}: got {}, expected a number that f32 holds", where(), Name(key), *value);
  return ParseNumber<double>(Formatted("{}", rounded));
}

std::vector<double> ArchitectureKeys::Reals(std::string_view key, int64_t count) {
  const std::string name = Used(key);
  const std::optional<std::vector<double>> values = metadata_.Reals(name);
  if (values && std::ssize(*values) != count)
    Fail("{}: {}: got a list of {}, expected {}", where(), name, values->size(), count);
  return values.value_or(std::vector<double>());
}

void ArchitectureKeys::Expect(std::string_view key, int64_t expected, std::string_view why) {
  const std::optional<int64_t> value = Number(key);
  if (value && *value != expected) Fail("{}: {}: got {}, expected {}: {}", where(), Name(key), *value, expected, why);
}

void ArchitectureKeys::ExpectReal(std::string_view key, double expected) {
  const std::optional<double> value = Real(key);
  if (value && *value != expected)
    Fail("{}: {}: got {}, expected {} (others are not supported)", where(), Name(key), *value, expected);
}

void ArchitectureKeys::CheckAllUsed() const {
  for (const auto& [key, value] : metadata_.values()) {
    if (key.starts_with(prefix_) && !used_.contains(key))
      Fail("{}: {}: is not supported, as it may change what the model computes", where(), key);
  }
}

}  // namespace tare::gguf
