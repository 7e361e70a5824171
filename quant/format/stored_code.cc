// SPDX-License-Identifier: Apache-2.0
#include "quant/format/stored_code.h"

#include <limits>
#include <vector>

namespace tare {
namespace {

constexpr float kNone = std::numeric_limits<float>::quiet_NaN();

float IntegerOf(int u, const FormatInfo& info) {
  const int lowest = info.min_code < 0 ? -(1 << (info.bits - 1)) : 0;
  const int code = info.bits == 8 && info.min_code < 0 ? static_cast<int8_t>(u) : u + lowest;
  return code < info.min_code || code > info.max_code ? kNone : static_cast<float>(code);
}

// Sign, exponent, mantissa; exponent 0 has the steps of exponent 1 and no leading bit.
float FloatOf(int u, int bits, const Grid& grid) {
  const int magnitude = u & ((1 << (bits - 1)) - 1), exponent = magnitude >> grid.mantissa_bits;
  const int mantissa = magnitude - (exponent << grid.mantissa_bits);
  const int steps = exponent == 0 ? mantissa : mantissa + (1 << grid.mantissa_bits);
  const float value = std::ldexp(static_cast<float>(steps) * grid.Step(), std::max(exponent, 1) - 1);
  return u == magnitude ? value : -value;
}

float ValueOf(int u, const FormatInfo& info) {
  const Grid& grid = info.grid;
  if (info.bits > 8 || u >= 1 << info.bits) return kNone;  // f32 and bf16 have no codes
  if (info.max_code > 0) return IntegerOf(u, info);
  if (!grid.levels.empty()) return u < std::ssize(grid.levels) ? grid.levels[static_cast<size_t>(u)] : kNone;
  const float value =
      grid.twos_complement ? static_cast<float>(static_cast<int8_t>(u)) * grid.Step() : FloatOf(u, info.bits, grid);
  return std::fabs(value) <= grid.largest ? value : kNone;
}

template <typename Value>
std::array<float, 256> TableOf(Value value) {
  std::array<float, 256> table{};
  for (int u = 0; u < 256; ++u) table[static_cast<size_t>(u)] = value(u);
  return table;
}

}  // namespace

const std::array<float, 256>& StoredValues(const Format& format) {
  static const auto kTables = [] {
    std::vector<std::array<float, 256>> tables;  // [range][base]
    for (const auto& of_range : kInfos) {
      for (const FormatInfo& info : of_range[0]) tables.push_back(TableOf([&info](int u) { return ValueOf(u, info); }));
    }
    return tables;
  }();
  if (!format.levels.empty()) return format.levels.table();
  return kTables[static_cast<size_t>(format.range) * kFormats.size() + static_cast<size_t>(format.base)];
}

uint8_t StoredScale(float scale, ScaleType type, float of_tensor) {
  if (scale == 0.0f) return 0;
  if (IsTwoLevel(type)) return StoredCode(Nearest(scale / of_tensor, kE4M3), Info(Format::kFp8E4M3));
  return static_cast<uint8_t>(std::ilogb(scale) + 127);
}

const std::array<float, 256>& ScaleValues(ScaleType type) {
  static const std::array<float, 256> kPowers =
      TableOf([](int u) { return u == 255 ? kNone : std::ldexp(1.0f, u - 127); });
  static const std::array<float, 256> kE4M3Scales =
      TableOf([](int u) { return u < 127 ? StoredValues(Format::kFp8E4M3)[static_cast<size_t>(u)] : kNone; });
  return IsTwoLevel(type) ? kE4M3Scales : kPowers;
}

}  // namespace tare
