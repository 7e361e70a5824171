// SPDX-License-Identifier: Apache-2.0
// See score_stage.h: z by vectors.
#include "hwy/highway.h"
#include "kernels/attention/integer/score_stage.h"

#if defined(TARE_SCORE_STAGE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TARE_SCORE_STAGE_INL_H_
#undef TARE_SCORE_STAGE_INL_H_
#else
#define TARE_SCORE_STAGE_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace tare {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::CappedTag<float, kTile / 2>;
using DI = hn::RebindToSigned<DF>;
using VF = hn::Vec<DF>;
constexpr int kLanes = HWY_MAX_LANES_D(DF);
constexpr int kVectors = kTile / kLanes;

class TileLogits {
 public:
  HWY_INLINE explicit TileLogits(const LogitSums& sums) : sums_(sums.sums) {
    for (int i = 0; i < kVectors; ++i) {
      offset_[i] = hn::Load(DI(), sums.offsets + i * kLanes);
      scale_[i] = hn::Load(DF(), sums.key_scales + i * kLanes);
    }
  }

  // Vector i of a row.
  HWY_INLINE VF operator()(int row, int i) const {
    const auto sum = hn::Add(hn::Load(DI(), sums_ + row * kTile + i * kLanes), offset_[i]);
    return hn::Mul(hn::ConvertTo(DF(), sum), scale_[i]);
  }

 private:
  const int32_t* sums_;
  hn::Vec<DI> offset_[kVectors];
  VF scale_[kVectors];
};

class BiasedTileLogits {
 public:
  HWY_INLINE explicit BiasedTileLogits(const LogitSums& sums) : sums_(sums), plain_(sums) {}

  HWY_INLINE VF operator()(int row, int i) const {
    const VF bias = hn::Load(DF(), sums_.key_bias + i * kLanes);
    return hn::MulAdd(bias, hn::Set(DF(), sums_.row_inv[row]), plain_(row, i));
  }

 private:
  const LogitSums& sums_;
  TileLogits plain_;
};

}  // namespace HWY_NAMESPACE
}  // namespace tare
HWY_AFTER_NAMESPACE();

#endif
