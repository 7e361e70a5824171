// SPDX-License-Identifier: Apache-2.0
// See code_stage.h. stages.cc compiles this file, once for each instruction set.
#include "kernels/attention/integer/code_stage.h"

#include "kernels/attention/exponentials.h"
#include "kernels/attention/integer/executed_attention.h"
#include "quant/base/integers.h"
#include "quant/format/round.h"

#include "kernels/attention/exponentials-inl.h"
#include "kernels/elementwise/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tare {
namespace HWY_NAMESPACE::code_stage {

using DI16 = hn::Repartition<int16_t, DF>;
using DU8 = hn::Repartition<uint8_t, DF>;
using VI16 = hn::Vec<DI16>;

constexpr float kPerOctave = 1.0f / kExpUnitsPerOctave;

HWY_INLINE VF LargestOver(int tiles, int rows, const float* x) {
  VF largest = hn::Load(DF(), x);
  for (int t = 1; t < tiles; ++t) largest = hn::Max(largest, hn::Load(DF(), x + t * rows));
  return largest;
}

// 2^((max - reference) / 2048); 0 for a tile, or a row, without a visible key.
HWY_INLINE VF Below(VF max, VF reference) {
  const DF d;
  return RowExp2(d, hn::Mul(hn::Sub(max, reference), hn::Set(d, kPerOctave)));
}

// Writes block_max, factors [tiles][rows], of an exponential in its code, each over 2^16, and sums before rounding.
HWY_INLINE void LateFactors(const LateCodes& b, float* factors) {
  const DF d;
  const VF per_exp = hn::Set(d, b.qmax / kExpLargest), per_65536 = hn::Set(d, 0x1p-16f);
  for (int r = 0; r < b.rows; r += kLanes) {
    const VF largest = b.row_max == nullptr ? LargestOver(b.tiles, b.rows, b.max + r) : hn::Load(d, b.row_max + r);
    hn::Store(largest, d, b.block_max + r);
    VF sum = hn::Zero(d);
    for (int t = r; t < b.tiles * b.rows; t += b.rows) {
      const VF factor = hn::Mul(Below(hn::Load(d, b.max + t), largest), per_exp);
      hn::Store(hn::Mul(factor, per_65536), d, factors + t);
      if (b.exp_sums != nullptr) sum = hn::Add(sum, hn::Mul(factor, hn::ConvertTo(d, hn::Load(DI(), b.exp_sums + t))));
    }
    hn::Store(sum, d, b.sums + r);
  }
}

void EarlyWeightRows(int rows, int tiles, const float* lambda, const float* max, const int32_t* exp_sums,
                     float* largest_of_row, float* weights) {
  const DF d;
  for (int r = 0; r < rows; r += kLanes) {
    const VF largest = LargestOver(tiles, rows, max + r);
    hn::Store(largest, d, largest_of_row + r);
    VF sum = hn::Zero(d);
    for (int t = r; t < tiles * rows; t += rows) {
      const VF below = Below(hn::Load(d, max + t), largest);
      hn::Store(below, d, weights + t);
      sum = hn::Add(sum, hn::Mul(below, hn::ConvertTo(d, hn::Load(DI(), exp_sums + t))));
    }
    const VF one = lambda == nullptr ? hn::Set(d, 1.0f) : hn::Load(d, lambda + r);
    const VF factor = hn::IfThenElseZero(hn::Gt(sum, hn::Zero(d)), hn::Div(one, sum));
    for (int t = r; t < tiles * rows; t += rows) hn::Store(hn::Mul(hn::Load(d, weights + t), factor), d, weights + t);
  }
}

// |e1 w1 - e2 w2| <= 32767 max(w1, w2), or 32767 (w1 - w2) where lambda is negative.
HWY_INLINE VF Bound(VF w1, VF w2) { return hn::Max(w2, hn::Sub(w1, hn::Min(w2, hn::Zero(DF())))); }

HWY_INLINE void StoreFactor(VF w, VF per_weight, int16_t* a) {
  const hn::Rebind<int16_t, DF> d16;
  hn::Store(hn::DemoteTo(d16, hn::NearestInt(hn::Mul(w, per_weight))), d16, a);
}

// a1 and a2 of the block's tiles [tiles][rows], and worth [rows].
struct EarlyFactors {
  HWY_ALIGN int16_t a1[kLargestBlock / kTile * kLargestRows];
  HWY_ALIGN int16_t a2[kLargestBlock / kTile * kLargestRows];
  HWY_ALIGN float worth[kLargestRows];  // of 1 of D
};

HWY_INLINE void FactorsOf(const EarlyCodes& b, EarlyFactors& f) {
  const DF d;
  for (int r = 0; r < b.rows; r += kLanes) {
    VF bound = hn::Zero(d);
    for (int t = r; t < b.tiles * b.rows; t += b.rows)
      bound = hn::Max(bound, Bound(hn::Load(d, b.weights1 + t), hn::Load(d, b.weights2 + t)));
    const VF per_weight =
        hn::IfThenElseZero(hn::Ge(bound, hn::Set(d, kSmallestAbsmax)), hn::Div(hn::Set(d, kExpLargest), bound));
    for (int t = r; t < b.tiles * b.rows; t += b.rows) {
      StoreFactor(hn::Load(d, b.weights1 + t), per_weight, f.a1 + t);
      StoreFactor(hn::Load(d, b.weights2 + t), per_weight, f.a2 + t);
    }
    hn::Store(hn::Mul(bound, hn::Set(d, 32768.0f / kExpLargest)), d, f.worth + r);
  }
}

// round_half_even(x * factor); the product is not rounded before.
HWY_INLINE VI Nearest(VF x, VF factor) {
  const DF d;
  const VF magic = hn::Set(d, kToNearest);
  return hn::Sub(hn::BitCast(DI(), hn::MulAdd(x, factor, magic)), hn::BitCast(DI(), magic));
}

// As Nearest, for 2 * kLanes 16-bit integers, whose results fit 16 bits. One instruction cuts out 2^16 times the even
// ones, another 2^16 times the odd ones, and f32 holds both; per_65536: factor / 2^16.
HWY_INLINE VI16 NearestOf(VI16 x, VF per_65536) {
  const DF df;
  const DI di;
  const DI16 d16;
  const VF magic = hn::Set(df, kToNearest);
  const auto nearest = [&](VI value) HWY_ATTR {
    return hn::BitCast(di, hn::MulAdd(hn::ConvertTo(df, value), per_65536, magic));  // kToNearest's low 16 bits are 0
  };
  const VI even = nearest(hn::ShiftLeft<16>(hn::BitCast(di, x)));
  const VI odd = nearest(hn::And(hn::BitCast(di, x), hn::Set(di, static_cast<int32_t>(0xffff0000u))));
  return hn::OddEven(hn::BitCast(d16, hn::ShiftLeft<16>(odd)), hn::BitCast(d16, even));
}

// Bytes round_half_even(x * factor) + zero, in key order, of 4 * kLanes keys from i on in exps' order (row_block.h).
HWY_INLINE hn::Vec<DU8> Bytes(const int16_t* x, int i, VF per_65536, VI16 zero) {
  const DI16 d16;
  const auto words = [&](int at) HWY_ATTR { return hn::Add(NearestOf(hn::Load(d16, x + at), per_65536), zero); };
  return hn::ReorderDemote2To(DU8(), words(i / 2), words(32 + i / 2));
}

// Writes a row's codes and returns lanes that add up to their sum.
HWY_INLINE VI LateRow(const LateCodes& b, const float* factors, int r) {
  const DU8 d8;
  const DI di;
  const hn::Repartition<int8_t, DF> ones;
  VI sum = hn::Zero(di);
  for (int t = 0; t < b.tiles; ++t) {
    const VF factor = hn::Set(DF(), factors[t * b.rows + r]);
    for (int i = 0; i < kTile; i += 4 * kLanes) {
      const auto code = Bytes(b.exps + t * b.tile_stride + r * kTile, i, factor, hn::Zero(DI16()));
      hn::Store(code, d8, b.codes + r * b.stride + t * kTile + i);
      sum = hn::SumOfMulQuadAccumulate(di, code, hn::Set(ones, 1), sum);
    }
  }
  return sum;
}

void LateRows(const LateCodes& b) {
  const DI di;
  const hn::BlockDFromD<DF> block;
  HWY_ALIGN float factors[kLargestBlock / kTile * kLargestRows];
  LateFactors(b, factors);
  for (int row = 0; row < b.rows; row += 4) {
    VI sum[4];
    for (int r = 0; r < 4; ++r) sum[r] = LateRow(b, factors, row + r);
    if (b.exp_sums == nullptr)
      hn::Store(hn::ConvertTo(block, ReduceFour(di, sum[0], sum[1], sum[2], sum[3], Total())), block, b.sums + row);
  }
}

// 16 rows' blocks one after the other. What was summed before a reference changed shrinks with it.
HWY_INLINE bool MergeRows(const LateMerge& m, int first) {
  const DF d;
  const VF far = hn::Set(d, 60.0f * kExpUnitsPerOctave), one = hn::Set(d, 1.0f);
  VF reference = hn::Load(d, m.reference + first), norm = hn::Load(d, m.norm + first), shrink = one;
  for (int b = 0; b < m.blocks; ++b) {
    const int at = b * m.rows + first;
    const VF largest = hn::Load(d, m.block_max + at);
    const auto is_far = hn::Gt(hn::Sub(largest, reference), far);
    if (!hn::AllFalse(d, is_far)) {
      const VF less = hn::IfThenElse(is_far, Below(reference, largest), one);  // may be 0
      norm = hn::Mul(norm, less);
      shrink = hn::Mul(shrink, less);
      for (int i = first; i < at; i += m.rows)
        hn::Store(hn::Mul(hn::Load(d, m.row_scales + i), less), d, m.row_scales + i);
      reference = hn::IfThenElse(is_far, largest, reference);
    }
    const VF scale = Below(largest, reference);
    hn::Store(scale, d, m.row_scales + at);
    norm = hn::Add(norm, hn::Mul(scale, hn::Load(d, m.code_sums + at)));
  }
  hn::Store(reference, d, m.reference + first);
  hn::Store(norm, d, m.norm + first);
  hn::Store(shrink, d, m.shrinks + first);
  return !hn::AllTrue(d, hn::Eq(shrink, one));
}

bool Merge(const LateMerge& m) {
  bool any = false;
  for (int first = 0; first < m.rows; first += kLanes) any |= MergeRows(m, first);
  return any;
}

// D of one row, all tiles, into out [tiles * 64]; above, below: lanes whose largest are max(D, 0) and max(-D, 0).
HWY_INLINE void Differences(const EarlyCodes& b, const EarlyFactors& f, int r, int16_t* out, VI& above, VI& below) {
  const DI16 d;
  const DI di;
  VI16 largest = hn::Zero(d), smallest = hn::Zero(d);
  for (int t = 0; t < b.tiles; ++t) {
    const int at = t * b.rows + r;
    const int64_t row = t * b.tile_stride + r * kTile;
    const VI16 a1 = hn::Set(d, f.a1[at]), a2 = hn::Set(d, f.a2[at]);
    for (int i = 0; i < kTile; i += 2 * kLanes) {
      const VI16 first = hn::MulFixedPoint15(hn::Load(d, b.exps1 + row + i), a1);
      const VI16 second = hn::MulFixedPoint15(hn::Load(d, b.exps2 + row + i), a2);
      const VI16 difference = hn::Sub(first, second);
      largest = hn::Max(largest, difference);
      smallest = hn::Min(smallest, difference);
      hn::Store(difference, d, out + t * kTile + i);
    }
  }
  above = hn::Max(hn::PromoteLowerTo(di, largest), hn::PromoteUpperTo(di, largest));
  below = hn::Neg(hn::Min(hn::PromoteLowerTo(di, smallest), hn::PromoteUpperTo(di, smallest)));
}

// The ends of D in 16 rows, and their inv.
struct Steps {
  HWY_ALIGN float above[kRowStep];  // largest D, or 0
  HWY_ALIGN float below[kRowStep];  // smallest D, or 0, as a magnitude
  HWY_ALIGN float inv[kRowStep];
};

// inv, scales and zeros of 16 rows from `first` on, by the ends of their D; worth: what 1 of D is worth in each row.
HWY_INLINE void ToSteps(const EarlyCodes& b, int first, const float* worth, Steps& s) {
  const DF d;
  const DI di;
  const bool zero_point = Info(b.format).min_code == 0;
  const VF most = hn::Set(d, static_cast<float>(Info(b.format).max_code) - (zero_point ? kZeroPointMargin : 0.0f));
  for (int r = 0; r < kRowStep; r += kLanes) {
    const VF above = hn::Load(d, s.above + r), below = hn::Load(d, s.below + r);
    const VF range = zero_point ? hn::Add(above, below) : hn::Max(above, below);
    const VF inv = hn::IfThenElseZero(hn::Gt(range, hn::Zero(d)), hn::Div(most, range));
    hn::Store(hn::Mul(hn::Load(d, worth + r), hn::Div(range, most)), d, b.scales + first + r);
    hn::Store(inv, d, s.inv + r);
    hn::Store(zero_point ? Nearest(below, inv) : hn::Set(di, 128), di, b.zeros + first + r);
  }
}

// 16 rows at a time, so that no row waits for its own maximum.
void EarlyRows(const EarlyCodes& b) {
  const DI di;
  const DU8 d8;
  const hn::BlockDFromD<DF> block;
  HWY_ALIGN int16_t differences[kRowStep * kLargestBlock];
  EarlyFactors factors;
  FactorsOf(b, factors);
  Steps steps;
  const int width = b.tiles * kTile;
  for (int first = 0; first < b.rows; first += kRowStep) {
    for (int r = 0; r < kRowStep; r += 4) {
      VI above[4], below[4];
      for (int i = 0; i < 4; ++i)
        Differences(b, factors, first + r + i, differences + (r + i) * width, above[i], below[i]);
      const auto largest = ReduceFour(di, above[0], above[1], above[2], above[3], Largest());
      const auto smallest = ReduceFour(di, below[0], below[1], below[2], below[3], Largest());
      hn::Store(hn::ConvertTo(block, largest), block, steps.above + r);
      hn::Store(hn::ConvertTo(block, smallest), block, steps.below + r);
    }
    ToSteps(b, first, factors.worth + first, steps);
    for (int r = 0; r < kRowStep; ++r) {
      const VF inv = hn::Set(DF(), steps.inv[r] * 0x1p-16f);
      const VI16 zero = hn::Set(DI16(), static_cast<int16_t>(b.zeros[first + r]));
      uint8_t* codes = b.codes + (first + r) * b.stride;
      for (int i = 0; i < width; i += 4 * kLanes)
        hn::Store(Bytes(differences + r * width + i / kTile * kTile, i % kTile, inv, zero), d8, codes + i);
    }
  }
}

}  // namespace HWY_NAMESPACE::code_stage
}  // namespace tare
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tare {

void LateStage(const LateCodes& block) { TARE_CHOSEN(code_stage::LateRows)(block); }
bool MergeBlocks(const LateMerge& blocks) { return TARE_CHOSEN(code_stage::Merge)(blocks); }
void EarlyWeights(int rows, int tiles, const float* lambda, const float* max, const int32_t* exp_sums, float* largest,
                  float* weights) {
  TARE_CHOSEN(code_stage::EarlyWeightRows)(rows, tiles, lambda, max, exp_sums, largest, weights);
}
void EarlyStage(const EarlyCodes& block) { TARE_CHOSEN(code_stage::EarlyRows)(block); }

}  // namespace tare
#endif
