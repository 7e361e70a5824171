// SPDX-License-Identifier: Apache-2.0
// See float_stage.h.
#include "kernels/attention/float/float_stage.h"

#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/float/float_stage.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/attention/four_rows-inl.h"
#include "kernels/attention/row_exp2-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tare {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::CappedTag<float, kRowStep>;
using DI = hn::RebindToSigned<DF>;
using VF = hn::Vec<DF>;
constexpr int kLanes = HWY_MAX_LANES_D(DF);
constexpr int kVectors = kTile / kLanes;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// 2^x for x <= 0; 2^-126 below. The octave is added to the exponent's bits: magic leaves the rounded x in the low ones.
HWY_INLINE VF Exp2(VF x) {
  constexpr float kMagic = 12582912.0f;
  const DF d;
  const DI di;
  const VF shifted = hn::Add(hn::Max(x, hn::Set(d, -126.0f)), hn::Set(d, kMagic));
  const VF f = hn::Sub(hn::Max(x, hn::Set(d, -126.0f)), hn::Sub(shifted, hn::Set(d, kMagic)));
  VF p = hn::Set(d, 1.3333558e-3f);
  for (const float c : {9.618129e-3f, 5.550411e-2f, 2.4022651e-1f, 6.9314718e-1f, 1.0f})
    p = hn::MulAdd(p, f, hn::Set(d, c));
  return hn::BitCast(d, hn::Add(hn::BitCast(di, p), hn::ShiftLeft<23>(hn::BitCast(di, shifted))));
}

HWY_INLINE hn::Mask<DF> Visible(const FloatScoreTile& tile, int row, int i) {
  const DI di;
  const auto key = hn::Iota(di, i);
  return hn::RebindMask(DF(),
                        hn::And(hn::Ge(key, hn::Set(di, tile.begin[row])), hn::Lt(key, hn::Set(di, tile.end[row]))));
}

struct AllKeys {
  HWY_INLINE VF Score(VF x, int, int) const { return x; }
  HWY_INLINE VF Value(VF p, int, int) const { return p; }
};

struct SomeKeys {
  const FloatScoreTile& tile;
  HWY_INLINE VF Score(VF x, int row, int i) const {
    return hn::IfThenElse(Visible(tile, row, i), x, hn::Set(DF(), -kInfinity));
  }
  HWY_INLINE VF Value(VF p, int row, int i) const { return hn::IfThenElseZero(Visible(tile, row, i), p); }
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
        const VF p = keys.Value(Exp2(hn::MulAdd(hn::Load(d, sums + i), factor, minus)), row + r, i);
        sum[r] = hn::Add(sum[r], p);
        hn::Store(p, d, t.p + (row + r) * kTile + i);
      }
    }
    hn::Store(ReduceFour(d, sum[0], sum[1], sum[2], sum[3], Total()), block, t.sum + row);
  }
}

void ScoreRows(const FloatScoreTile& tile) {
  if (tile.begin == nullptr) return Rows(tile, AllKeys());
  Rows(tile, SomeKeys{tile});
}

void WeightRows(int rows, int tiles, const float* lambda, const float* sums, float* max) {
  const DF d;
  for (int r = 0; r < rows; r += kLanes) {
    VF largest = hn::Load(d, max + r);
    for (int t = r; t < tiles * rows; t += rows) largest = hn::Max(largest, hn::Load(d, max + t));
    VF sum = hn::Zero(d);
    for (int t = r; t < tiles * rows; t += rows) {
      const VF below = RowExp2(d, hn::Sub(hn::Load(d, max + t), largest));
      hn::Store(below, d, max + t);
      sum = hn::MulAdd(below, hn::Load(d, sums + t), sum);
    }
    const VF one = lambda == nullptr ? hn::Set(d, 1.0f) : hn::Load(d, lambda + r);
    const VF factor = hn::IfThenElseZero(hn::Gt(sum, hn::Zero(d)), hn::Div(one, sum));
    for (int t = r; t < tiles * rows; t += rows) hn::Store(hn::Mul(hn::Load(d, max + t), factor), d, max + t);
  }
}

void DifferenceRows(const FloatDifferences& t) {
  const DF d;
  for (int r = 0; r < t.rows; ++r) {
    const VF w1 = hn::Set(d, t.w1[r]), w2 = hn::Set(d, t.p2 == nullptr ? 0.0f : t.w2[r]);
    for (int i = r * kTile; i < (r + 1) * kTile; i += kLanes) {
      const VF first = hn::Mul(hn::Load(d, t.p1 + i), w1);
      hn::Store(t.p2 == nullptr ? first : hn::NegMulAdd(hn::Load(d, t.p2 + i), w2, first), d, t.p1 + i);
    }
  }
}

// 4 x 4 at a time.
void TransposeFour(const float* keys, int64_t stride, int count, int width, float* out) {
  const hn::FixedTag<float, 4> d;
  const hn::RepartitionToWide<decltype(d)> wide;
  for (int i = 0; i < width; i += 4) {
    const auto load = [&](int k) HWY_ATTR {
      return k < count ? hn::LoadN(d, keys + k * stride + i, static_cast<size_t>(width - i)) : hn::Zero(d);
    };
    const auto a = load(0), b = load(1), c = load(2), e = load(3);
    const auto ab_low = hn::BitCast(wide, hn::InterleaveLower(d, a, b)),
               ab_high = hn::BitCast(wide, hn::InterleaveUpper(d, a, b));
    const auto ce_low = hn::BitCast(wide, hn::InterleaveLower(d, c, e)),
               ce_high = hn::BitCast(wide, hn::InterleaveUpper(d, c, e));
    const auto store = [&](int channel, auto v) HWY_ATTR {
      if (i + channel < width) hn::StoreU(hn::BitCast(d, v), d, out + (i + channel) * kTile);
    };
    store(0, hn::InterleaveLower(wide, ab_low, ce_low));
    store(1, hn::InterleaveUpper(wide, ab_low, ce_low));
    store(2, hn::InterleaveLower(wide, ab_high, ce_high));
    store(3, hn::InterleaveUpper(wide, ab_high, ce_high));
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
HWY_EXPORT(TransposeFour);

void FloatScores(const FloatScoreTile& tile) { HWY_DYNAMIC_DISPATCH(ScoreRows)(tile); }

void FloatWeights(int rows, int tiles, const float* lambda, const float* sums, float* max) {
  HWY_DYNAMIC_DISPATCH(WeightRows)(rows, tiles, lambda, sums, max);
}

void FloatDifference(const FloatDifferences& tile) { HWY_DYNAMIC_DISPATCH(DifferenceRows)(tile); }

void TransposeFourKeys(const float* keys, int64_t stride, int count, int width, float* out) {
  HWY_DYNAMIC_DISPATCH(TransposeFour)(keys, stride, count, width, out);
}

}  // namespace tare
#endif
