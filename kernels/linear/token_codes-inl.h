// SPDX-License-Identifier: Apache-2.0
// stages.cc compiles this file, once for each instruction set.
#include "kernels/linear/token_codes.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "quant/base/integers.h"
#include "quant/format/round.h"

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tare {
namespace HWY_NAMESPACE::token_codes {
namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::CappedTag<float, 16>;
using DI = hn::RebindToSigned<DF>;
using DU = hn::RebindToUnsigned<DF>;
constexpr int64_t kLanes = HWY_MAX_LANES_D(DF);

// Magnitudes compare as integers, NaN above all. Four accumulators: a vector's maximum takes several cycles.
float LargestMagnitude(const float* x, int64_t n) {
  const DF d;
  const DI di;
  auto a = hn::Zero(di), b = a, c = a, e = a;
  const auto magnitude = [&](int64_t i) HWY_ATTR { return hn::BitCast(di, hn::Abs(hn::LoadU(d, x + i))); };
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    a = hn::Max(a, magnitude(i));
    b = hn::Max(b, magnitude(i + kLanes));
    c = hn::Max(c, magnitude(i + 2 * kLanes));
    e = hn::Max(e, magnitude(i + 3 * kLanes));
  }
  for (; i + kLanes <= n; i += kLanes) a = hn::Max(a, magnitude(i));
  if (i < n) b = hn::Max(b, hn::BitCast(di, hn::Abs(hn::LoadN(d, x + i, static_cast<size_t>(n - i)))));
  return std::bit_cast<float>(hn::ReduceMax(di, hn::Max(hn::Max(a, b), hn::Max(c, e))));
}

float TokenCodes(const float* x, int64_t n, Format format, std::optional<float> clip, uint8_t* codes, int64_t padded) {
  const float absmax = LargestMagnitude(x, n);
  if (!(absmax <= std::numeric_limits<float>::max())) return std::numeric_limits<float>::quiet_NaN();
  const Scale scale = ScaleFor(clip.value_or(absmax), format);
  const DF d;
  const hn::Repartition<uint16_t, DF> d16;
  const hn::Repartition<uint8_t, DF> d8;
  // Only a static scale has values beyond its clip; clamping before rounding gives the same codes as after.
  const auto inv = hn::Set(d, scale.inv), magic = hn::Set(d, kToNearest + 128.0f);
  const auto largest = hn::Set(d, static_cast<float>(Info(format).max_code)), smallest = hn::Neg(largest);
  const auto code = [&](auto value) HWY_ATTR {
    return hn::BitCast(DU(), hn::Add(hn::Clamp(hn::Mul(value, inv), smallest, largest), magic));
  };
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    const auto at = [&](int64_t j) HWY_ATTR { return code(hn::LoadU(d, x + i + j * kLanes)); };
    hn::StoreU(hn::OrderedTruncate2To(d8, hn::OrderedTruncate2To(d16, at(0), at(1)),
                                      hn::OrderedTruncate2To(d16, at(2), at(3))),
               d8, codes + i);
  }
  for (; i < n; ++i) {
    const auto one = code(hn::Set(d, x[i]));
    codes[i] = static_cast<uint8_t>(hn::GetLane(one));
  }
  std::fill(codes + n, codes + padded, uint8_t{128});
  return scale.scale;
}

}  // namespace HWY_NAMESPACE::token_codes
}  // namespace tare
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tare {

HWY_EXPORT_T(TokenCodes, token_codes::TokenCodes);

float ToTokenCodes(const float* x, int64_t n, Format format, std::optional<float> clip, uint8_t* codes,
                   int64_t padded) {
  return HWY_DYNAMIC_DISPATCH(TokenCodes)(x, n, format, clip, codes, padded);
}

}  // namespace tare
#endif
