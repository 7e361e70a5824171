// SPDX-License-Identifier: Apache-2.0
// See float_stage.h.
#include "kernels/attention/float/float_stage.h"

#include <limits>

#include "kernels/elementwise/to_nearest.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/float/float_stage.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/attention/row_exp2-inl.h"
#include "kernels/attention/tile_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tare {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::CappedTag<float, kRowStep>;
using DI = hn::RebindToSigned<DF>;
using VF = hn::Vec<DF>;
constexpr int kLanes = HWY_MAX_LANES_D(DF);
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// 2^x for x <= 0; 2^-126 below. The octave, x rounded, is added to the exponent's bits.
HWY_INLINE VF Exp2(VF x) {
  const DF d;
  const DI di;
  const VF magic = hn::Set(d, kToNearest), clamped = hn::Max(x, hn::Set(d, -126.0f));
  const VF shifted = hn::Add(clamped, magic);
  const VF f = hn::Sub(clamped, hn::Sub(shifted, magic));
  VF p = hn::Set(d, 1.3333558e-3f);
  for (const float c : {9.618129e-3f, 5.550411e-2f, 2.4022651e-1f, 6.9314718e-1f, 1.0f})
    p = hn::MulAdd(p, f, hn::Set(d, c));
  return hn::BitCast(d, hn::Add(hn::BitCast(di, p), hn::ShiftLeft<23>(hn::BitCast(di, shifted))));
}

struct AllKeys {
  HWY_INLINE VF Score(VF x, int, int) const { return x; }
  HWY_INLINE VF Value(VF e, int, int) const { return e; }
};

struct SomeKeys {
  const FloatScoreTile& tile;
  HWY_INLINE VF Score(VF x, int row, int i) const {
    return hn::IfThenElse(Visible(DF(), tile, row, hn::Iota(DI(), i)), x, hn::Set(DF(), -kInfinity));
  }
  HWY_INLINE VF Value(VF e, int row, int i) const {
    return hn::IfThenElseZero(Visible(DF(), tile, row, hn::Iota(DI(), i)), e);
  }
};

template <class Keys>
HWY_INLINE void Rows(const FloatScoreTile& t, Keys keys) {
  const DF d;
  const hn::BlockDFromD<DF> block;
  const VF factor = hn::Set(d, t.factor);
  HWY_ALIGN float max[kLargestRows];
  for (int row = 0; row < t.rows; row += 4) {
    VF largest[4];
    for (int r = 0; r < 4; ++r) {
      const float* sums = t.sums + (row + r) * kTile;
      largest[r] = keys.Score(hn::Load(d, sums), row + r, 0);
      for (int i = kLanes; i < kTile; i += kLanes)
        largest[r] = hn::Max(largest[r], keys.Score(hn::Load(d, sums + i), row + r, i));
    }
    const auto four =
        hn::Mul(ReduceFour(d, largest[0], largest[1], largest[2], largest[3], Largest()), hn::Set(block, t.factor));
    hn::Store(four, block, max + row);
    hn::Store(four, block, t.max + row);
  }
  for (int row = 0; row < t.rows; row += 4) {
    VF sum[4];
    for (int r = 0; r < 4; ++r) {
      const VF minus = hn::Set(d, -max[row + r]);
      const float* sums = t.sums + (row + r) * kTile;
      sum[r] = hn::Zero(d);
      for (int i = 0; i < kTile; i += kLanes) {
        const VF e = keys.Value(Exp2(hn::MulAdd(hn::Load(d, sums + i), factor, minus)), row + r, i);
        sum[r] = hn::Add(sum[r], e);
        hn::Store(e, d, t.exps + (row + r) * kTile + i);
      }
    }
    hn::Store(ReduceFour(d, sum[0], sum[1], sum[2], sum[3], Total()), block, t.exp_sums + row);
  }
}

void ScoreRows(const FloatScoreTile& tile) {
  if (tile.begin == nullptr) return Rows(tile, AllKeys());
  Rows(tile, SomeKeys{tile});
}

void WeightRows(int rows, int tiles, const float* lambda, const float* max, const float* exp_sums, float* weights) {
  const DF d;
  for (int r = 0; r < rows; r += kLanes) {
    VF largest = hn::Load(d, max + r);
    for (int t = r; t < tiles * rows; t += rows) largest = hn::Max(largest, hn::Load(d, max + t));
    VF sum = hn::Zero(d);
    for (int t = r; t < tiles * rows; t += rows) {
      const VF below = RowExp2(d, hn::Sub(hn::Load(d, max + t), largest));
      hn::Store(below, d, weights + t);
      sum = hn::MulAdd(below, hn::Load(d, exp_sums + t), sum);
    }
    const VF one = lambda == nullptr ? hn::Set(d, 1.0f) : hn::Load(d, lambda + r);
    const VF factor = hn::IfThenElseZero(hn::Gt(sum, hn::Zero(d)), hn::Div(one, sum));
    for (int t = r; t < tiles * rows; t += rows) hn::Store(hn::Mul(hn::Load(d, weights + t), factor), d, weights + t);
  }
}

void DifferenceRows(const FloatDifferences& t) {
  const DF d;
  for (int r = 0; r < t.rows; ++r) {
    const VF w1 = hn::Set(d, t.weights1[r]), w2 = hn::Set(d, t.exps2 == nullptr ? 0.0f : t.weights2[r]);
    for (int i = r * kTile; i < (r + 1) * kTile; i += kLanes) {
      const VF first = hn::Mul(hn::Load(d, t.exps1 + i), w1);
      const VF both = t.exps2 == nullptr ? first : hn::NegMulAdd(hn::Load(d, t.exps2 + i), w2, first);
      hn::Store(both, d, t.difference + i);
    }
  }
}

void TransposeKeys(const float* keys, int64_t stride, int count, int width, float* out) {
  const hn::FixedTag<float, 4> d;
  for (int i = 0; i < width; i += 4) {
    const auto load = [&](int k) HWY_ATTR {
      return k < count ? hn::LoadN(d, keys + k * stride + i, static_cast<size_t>(width - i)) : hn::Zero(d);
    };
    TransposeFour(d, load(0), load(1), load(2), load(3), [&](int channel, auto v) HWY_ATTR {
      if (i + channel < width) hn::StoreU(v, d, out + (i + channel) * kTile);
    });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tare
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tare {

HWY_EXPORT(ScoreRows);
HWY_EXPORT(WeightRows);
HWY_EXPORT(DifferenceRows);
HWY_EXPORT(TransposeKeys);

void FloatScores(const FloatScoreTile& tile) { HWY_DYNAMIC_DISPATCH(ScoreRows)(tile); }
void FloatWeights(int rows, int tiles, const float* lambda, const float* max, const float* exp_sums, float* weights) {
  HWY_DYNAMIC_DISPATCH(WeightRows)(rows, tiles, lambda, max, exp_sums, weights);
}
void FloatDifference(const FloatDifferences& tile) { HWY_DYNAMIC_DISPATCH(DifferenceRows)(tile); }

void TransposeFourKeys(const float* keys, int64_t stride, int count, int width, float* out) {
  HWY_DYNAMIC_DISPATCH(TransposeKeys)(keys, stride, count, width, out);
}

}  // namespace tare
#endif
