// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/float/float_stage.h"

#include <limits>

#include "quant/base/integers.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/float/float_stage.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "kernels/attention/exponentials-inl.h"
#include "kernels/elementwise/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tare {
namespace HWY_NAMESPACE {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// x, at least -126; NaN of NaN: x86 returns the second argument of a maximum where one is NaN, ARM the number.
HWY_INLINE VF AtLeastTiny(VF x) {
  const VF least = hn::Set(DF(), -126.0f);
#if HWY_ARCH_X86
  return hn::Max(least, x);
#else
  return hn::IfThenElse(hn::Lt(x, least), least, x);
#endif
}

// 2^x for x <= 0; below, 2^-126; NaN of NaN. The rounded x becomes a power of two: added to exponent bits, it would
// make numbers of NaN with low bits. Coefficients: Remez's for relative error on |f| <= 1/2, but the last: 2^0 is 1.
HWY_INLINE VF Exp2(VF x) {
  const DF d;
  const DI di;
  const VF magic = hn::Set(d, kToNearest + 127), clamped = AtLeastTiny(x);
  const VF shifted = hn::Add(clamped, magic);
  const VF f = hn::Sub(clamped, hn::Sub(shifted, magic));
  VF p = hn::Set(d, 1.32764725e-3f);
  for (const float c : {9.67554096e-3f, 5.55071309e-2f, 0.240221202f, 0.693146944f, 1.0f})
    p = hn::MulAdd(p, f, hn::Set(d, c));
  return hn::Mul(p, hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(di, shifted))));
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
  const VF octaves = hn::Set(d, kLog2E);
  HWY_ALIGN float max[kLargestRows];
  for (int row = 0; row < t.rows; row += 4) {
    VF largest[4];
    for (int r = 0; r < 4; ++r) {
      const float* values = t.values + (row + r) * t.stride;
      largest[r] = keys.Score(hn::Load(d, values), row + r, 0);
      for (int i = kLanes; i < kTile; i += kLanes)
        largest[r] = hn::Max(largest[r], keys.Score(hn::Load(d, values + i), row + r, i));
    }
    const auto four =
        hn::Mul(ReduceFour(d, largest[0], largest[1], largest[2], largest[3], Largest()), hn::Set(block, kLog2E));
    hn::Store(four, block, max + row);
    hn::Store(four, block, t.max + row);
  }
  for (int row = 0; row < t.rows; row += 4) {
    VF sum[4];
    for (int r = 0; r < 4; ++r) {
      const VF minus = hn::Set(d, -max[row + r]);
      float* values = t.values + (row + r) * t.stride;
      sum[r] = hn::Zero(d);
      for (int i = 0; i < kTile; i += kLanes) {
        const VF e = keys.Value(Exp2(hn::MulAdd(hn::Load(d, values + i), octaves, minus)), row + r, i);
        sum[r] = hn::Add(sum[r], e);
        hn::Store(e, d, values + i);
      }
    }
    hn::Store(ReduceFour(d, sum[0], sum[1], sum[2], sum[3], Total()), block, t.exp_sums + row);
  }
}

void ScoreRows(const FloatScoreTile& tile) {
  if (tile.begin == nullptr) return Rows(tile, AllKeys());
  Rows(tile, SomeKeys{tile});
}

void WeightRows(int rows, int tiles, const float* max, const float* exp_sums, float* weights) {
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
    const auto taken = hn::Lt(hn::Abs(largest), hn::Set(d, kMostLogit * kLog2E));
    const VF one = hn::IfThenElse(taken, hn::Set(d, 1.0f), hn::NaN(d));
    const VF factor = hn::IfThenZeroElse(hn::Eq(sum, hn::Zero(d)), hn::Div(one, sum));
    for (int t = r; t < tiles * rows; t += rows) hn::Store(hn::Mul(hn::Load(d, weights + t), factor), d, weights + t);
  }
}

void DifferenceRows(const FloatDifferences& t) {
  const DF d;
  for (int r = 0; r < t.rows; ++r) {
    const int64_t begin = r * t.stride;
    const VF w1 = hn::Set(d, t.weights1[r]);
    if (t.exps2 == nullptr) {
      for (int64_t i = begin; i < begin + kTile; i += kLanes)
        hn::Store(hn::Mul(hn::Load(d, t.exps1 + i), w1), d, t.difference + i);
      continue;
    }
    const VF w2 = hn::Set(d, t.weights2[r]), lambda = hn::Set(d, t.lambda[r]);
    for (int64_t i = begin; i < begin + kTile; i += kLanes) {
      const VF first = hn::Mul(hn::Load(d, t.exps1 + i), w1), second = hn::Mul(hn::Load(d, t.exps2 + i), w2);
      hn::Store(hn::NegMulAdd(second, lambda, first), d, t.difference + i);
    }
  }
}

void TransposeKeys(const float* const* keys, int width, float* out) {
  const hn::FixedTag<float, 4> d;
  for (int i = 0; i < width; i += 4) {
    const auto load = [&](int k) HWY_ATTR {
      return keys[k] == nullptr ? hn::Zero(d) : hn::LoadN(d, keys[k] + i, static_cast<size_t>(width - i));
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

void FloatScores(const FloatScoreTile& tile) { TARE_CHOSEN(ScoreRows)(tile); }

void FloatWeights(int rows, int tiles, const float* max, const float* exp_sums, float* weights) {
  TARE_CHOSEN(WeightRows)(rows, tiles, max, exp_sums, weights);
}

void FloatDifference(const FloatDifferences& tile) { TARE_CHOSEN(DifferenceRows)(tile); }

void TransposeFourKeys(const float* const* keys, int width, float* out) {
  TARE_CHOSEN(TransposeKeys)(keys, width, out);
}

}  // namespace tare
#endif
