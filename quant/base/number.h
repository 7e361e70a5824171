// SPDX-License-Identifier: Apache-2.0
// Parses a number that must be the whole text: "12", "-3", "0.5", "1e-3"; no blank, no plus sign.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>

namespace tare {

// Empty if the text is no number, or one that T cannot hold.
template <typename T>
std::optional<T> ParseNumber(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace tare
