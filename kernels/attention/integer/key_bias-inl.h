// SPDX-License-Identifier: Apache-2.0
// See key_bias.h. A vector holds 4 channels of a key in each lane: byte j is moved to the top and back with its sign.
// stages.cc compiles this file, once for each instruction set.
#include "kernels/attention/integer/key_bias.h"

#include "kernels/attention/row_block.h"

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tare {
namespace HWY_NAMESPACE::key_bias {
namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::CappedTag<float, 16>;
using DI = hn::RebindToSigned<DF>;
constexpr int kLanes = HWY_MAX_LANES_D(DF);

void TileBias(const int8_t* codes, int width, const float* mean, const float* key_scales, float* bias) {
  const DF d;
  const DI di;
  for (int key = 0; key < kTile; key += kLanes) {
    auto sum = hn::Zero(d);
    for (int channel = 0; channel < width; ++channel) {
      const auto four = hn::LoadU(di, reinterpret_cast<const int32_t*>(codes) + channel / 4 * kTile + key);
      const auto code = hn::ShiftRight<24>(hn::ShiftLeftSame(four, 24 - 8 * (channel % 4)));
      sum = hn::MulAdd(hn::Set(d, mean[channel]), hn::ConvertTo(d, code), sum);
    }
    hn::StoreU(hn::Mul(sum, hn::LoadU(d, key_scales + key)), d, bias + key);
  }
}

}  // namespace HWY_NAMESPACE::key_bias
}  // namespace tare
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tare {

HWY_EXPORT_T(TileBias, key_bias::TileBias);

void KeyBias(const int8_t* codes, int width, const float* mean, const float* key_scales, float* bias) {
  HWY_DYNAMIC_DISPATCH(TileBias)(codes, width, mean, key_scales, bias);
}

}  // namespace tare
#endif
