// SPDX-License-Identifier: Apache-2.0
// Number formats of codes. Signed ones are symmetric, -(2^(b-1)-1) .. 2^(b-1)-1; unsigned ones, 0 .. 2^b-1, are for
// what cannot be negative (probabilities), and with a zero point (zero_point.h) for what leans to one side. f32 means:
// left as it is.
#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace tare {

enum class Format { kF32, kInt8, kInt6, kInt4, kU8, kU6, kU4 };

struct FormatInfo {
  Format format;
  std::string_view name;
  int bits;
  int min_code;
  int max_code;  // "qmax": what the largest magnitude of a group becomes
};

inline constexpr std::array<FormatInfo, 7> kFormats{{
    {Format::kF32, "f32", 32, 0, 0},
    {Format::kInt8, "int8", 8, -127, 127},
    {Format::kInt6, "int6", 6, -31, 31},
    {Format::kInt4, "int4", 4, -7, 7},
    {Format::kU8, "u8", 8, 0, 255},
    {Format::kU6, "u6", 6, 0, 63},
    {Format::kU4, "u4", 4, 0, 15},
}};

constexpr const FormatInfo& Info(Format format) { return kFormats[static_cast<size_t>(format)]; }

constexpr std::optional<Format> ParseFormat(std::string_view name) {
  for (const FormatInfo& info : kFormats) {
    if (info.name == name) return info.format;
  }
  return std::nullopt;
}

}  // namespace tare
