// SPDX-License-Identifier: Apache-2.0
// FakeQuantize of rows.h: integers, steps of a grid, levels of a list, as quant/format. stages.cc compiles it per set.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <span>

#include "kernels/elementwise/rows.h"
#include "quant/base/message.h"

#include "kernels/elementwise/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tare {
namespace HWY_NAMESPACE::fake_quantize {

void FakeQuantizeRow(float* row, size_t n, float inv, float scale, float lowest, float highest) {
  const D d;
  const V vinv = hn::Set(d, inv), vscale = hn::Set(d, scale), lo = hn::Set(d, lowest), hi = hn::Set(d, highest);
  const auto of = [&](V x) HWY_ATTR { return hn::Mul(hn::Clamp(hn::Round(hn::Mul(x, vinv)), lo, hi), vscale); };
  Map(n, row, of, row);
}

// NearestStep of quant/format/grid.h, lane by lane. settle(nearest, magnitude, step) resolves ties.
template <typename Settle>
HWY_INLINE void ToStepRow(float* row, size_t n, Scale scale, const Grid& grid, Settle settle) {
  const D d;
  const hn::RebindToUnsigned<D> du;
  const V inv = hn::Set(d, scale.inv), unit = hn::Set(d, scale.scale), largest = hn::Set(d, grid.largest);
  const V smallest_normal = hn::Set(d, grid.smallest_normal);
  const V step_of_one = hn::Set(d, 1.0f / static_cast<float>(1 << grid.mantissa_bits));
  const V magic_of_one = hn::Set(d, 1.5f * static_cast<float>(1 << (23 - grid.mantissa_bits)));
  const auto exponent = hn::Set(du, 0x7f800000u);
  ForVectors(n, [&](size_t i, size_t count) HWY_ATTR {
    const V x = hn::Mul(hn::LoadN(d, row + i, count), inv);
    const V magnitude = hn::Min(hn::Abs(x), largest);
    const V power = hn::BitCast(d, hn::And(hn::BitCast(du, hn::Max(magnitude, smallest_normal)), exponent));
    const V magic = hn::Mul(power, magic_of_one);
    const V nearest = settle(hn::Sub(hn::Add(magnitude, magic), magic), magnitude, hn::Mul(power, step_of_one));
    hn::StoreN(hn::Mul(hn::CopySign(nearest, x), unit), d, row + i, count);
  });
}

void FakeQuantizeToStepRow(float* row, size_t n, Scale scale, const Grid& grid) {
  const V half = hn::Set(D(), 0.5f);
  switch (grid.ties) {
    case Ties::kToEven:
      return ToStepRow(row, n, scale, grid, [](V nearest, V, V) HWY_ATTR { return nearest; });
    case Ties::kAwayFromZero:
      return ToStepRow(row, n, scale, grid, [half](V nearest, V magnitude, V step) HWY_ATTR {
        const auto tie = hn::Eq(hn::Sub(magnitude, nearest), hn::Mul(step, half));
        return hn::IfThenElse(tie, hn::Add(nearest, step), nearest);
      });
    case Ties::kTowardZero:
      return ToStepRow(row, n, scale, grid, [half](V nearest, V magnitude, V step) HWY_ATTR {
        const auto tie = hn::Eq(hn::Sub(nearest, magnitude), hn::Mul(step, half));
        return hn::IfThenElse(tie, hn::Sub(nearest, step), nearest);
      });
  }
}

// above[i] is the largest float that is not nearer to level i + 1 than to level i; after the last level, infinity.
struct Levels {
  std::array<float, 256> above, values;
};

HWY_INLINE Levels LevelsOf(std::span<const float> values) {
  Levels levels;
  TARE_CHECK(values.size() <= levels.values.size());
  levels.above.fill(std::numeric_limits<float>::infinity());
  std::ranges::copy(values, levels.values.begin());
  for (size_t i = 0; i + 1 < values.size(); ++i) {
    const double half = (double{values[i]} + double{values[i + 1]}) / 2;
    levels.above[i] = static_cast<float>(half);
    if (double{levels.above[i]} > half) levels.above[i] = std::nextafter(levels.above[i], values[i]);
  }
  return levels;
}

// NearestLevel of the same header: with few levels a comparison for each, with many by bisection.
void FakeQuantizeToLevelRow(float* row, size_t n, Scale scale, std::span<const float> values) {
  const D d;
  const hn::RebindToSigned<D> di;
  const Levels levels = LevelsOf(values);
  const V inv = hn::Set(d, scale.inv), unit = hn::Set(d, scale.scale);
  if (values.size() <= 16) {
    return ForVectors(n, [&](size_t i, size_t count) HWY_ATTR {
      const V x = hn::Mul(hn::LoadN(d, row + i, count), inv);
      V nearest = hn::Set(d, values[0]);
      for (size_t j = 1; j < values.size(); ++j)
        nearest = hn::IfThenElse(hn::Gt(x, hn::Set(d, levels.above[j - 1])), hn::Set(d, values[j]), nearest);
      hn::StoreN(hn::Mul(nearest, unit), d, row + i, count);
    });
  }
  const auto half = static_cast<int32_t>(std::bit_ceil(values.size()) / 2);
  ForVectors(n, [&](size_t i, size_t count) HWY_ATTR {
    const V x = hn::Mul(hn::LoadN(d, row + i, count), inv);
    auto index = hn::Zero(di);  // levels that x is beyond
    for (int32_t step = half; step > 0; step /= 2) {
      const V above = hn::GatherIndex(d, levels.above.data() - 1 + step, index);
      index = hn::Add(index, hn::IfThenElseZero(hn::RebindMask(di, hn::Gt(x, above)), hn::Set(di, step)));
    }
    hn::StoreN(hn::Mul(hn::GatherIndex(d, levels.values.data(), index), unit), d, row + i, count);
  });
}

}  // namespace HWY_NAMESPACE::fake_quantize
}  // namespace tare
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tare {

void FakeQuantize(float* row, size_t n, Scale scale, Format format) {
  const FormatInfo& info = Info(format);
  if (scale.inv < 0)
    return TARE_CHOSEN(fake_quantize::FakeQuantizeToLevelRow)(row, n, {-scale.inv, scale.scale}, info.grid.evenly);
  if (!info.grid.levels.empty())
    return TARE_CHOSEN(fake_quantize::FakeQuantizeToLevelRow)(row, n, scale, info.grid.levels);
  if (!IsInteger(format)) return TARE_CHOSEN(fake_quantize::FakeQuantizeToStepRow)(row, n, scale, info.grid);
  TARE_CHOSEN(fake_quantize::FakeQuantizeRow)
  (row, n, scale.inv, scale.scale, static_cast<float>(info.min_code), static_cast<float>(info.max_code));
}
void FakeQuantize(float* row, size_t n, const ZeroPointScale& z, Format format) {
  TARE_CHOSEN(fake_quantize::FakeQuantizeRow)
  (row, n, z.scale.inv, z.scale.scale, static_cast<float>(-z.zero), static_cast<float>(Info(format).max_code - z.zero));
}

}  // namespace tare
#endif  // HWY_ONCE
