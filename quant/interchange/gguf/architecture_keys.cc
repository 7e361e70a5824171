// SPDX-License-Identifier: Apache-2.0
#include "quant/interchange/gguf/config_keys.h"

#include <algorithm>
#include <cmath>
#include <variant>

#include "quant/base/message.h"

namespace tare::gguf {
namespace {

constexpr uint64_t kMost = (uint64_t{1} << 31) - 1;  // of a number in config.json

}  // namespace

bool ArchitectureKeys::IsArray(std::string_view key) const {
  const auto found = metadata_.values().find(Name(key));
  return found != metadata_.values().end() && std::holds_alternative<Array>(found->second);
}

std::optional<int64_t> ArchitectureKeys::Number(std::string_view key) {
  const std::string name = Used(key);
  if (!IsArray(key)) {
    const std::optional<uint64_t> value = metadata_.Unsigned(name, kMost);
    return value ? std::optional(static_cast<int64_t>(*value)) : std::nullopt;
  }
  const std::vector<double> by_layer = *metadata_.Reals(name);
  if (by_layer.empty() || std::ranges::adjacent_find(by_layer, std::not_equal_to()) != by_layer.end() ||
      !(by_layer[0] >= 0 && by_layer[0] <= static_cast<double>(kMost)))
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
  const auto found = metadata_.values().find(name);
  if (found == metadata_.values().end()) return {};
  const Array* const list = std::get_if<Array>(&found->second);
  if (list != nullptr && list->count != static_cast<uint64_t>(count))
    Fail("{}: {}: got a list of {}, expected {}", where(), name, list->count, count);
  return *metadata_.Reals(name);
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
