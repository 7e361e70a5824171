// SPDX-License-Identifier: Apache-2.0
// See score_stage.h.
#include "kernels/attention/score_stage.h"

#include <limits>

#include "kernels/attention/fixed_exp.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/score_stage.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tare {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::CappedTag<float, kTile / 2>;
using DI = hn::RebindToSigned<DF>;
using DU16 = hn::Repartition<uint16_t, DF>;
using DI16 = hn::Repartition<int16_t, DF>;
using VF = hn::Vec<DF>;
constexpr int kLanes = HWY_MAX_LANES_D(DF);
constexpr int kVectors = kTile / kLanes;

HWY_INLINE hn::Vec<DI16> Exp2Of(hn::Vec<DU16> u) {
  const DU16 d;
  const auto f = hn::ShiftLeft<5>(u);
  auto p = hn::Sub(hn::Set(d, kExpC2), hn::MulHigh(f, hn::Set(d, kExpC3)));
  p = hn::Sub(hn::Set(d, kExpC1), hn::MulHigh(f, p));
  p = hn::Sub(hn::Set(d, kExpLargest), hn::MulHigh(f, p));
  return hn::BitCast(DI16(), hn::Shr(p, hn::ShiftRight<11>(u)));
}

// round_half_even of a float in 0 .. 32767 as the low bits of its sum with 1.5 * 2^23.
HWY_INLINE hn::Vec<hn::RebindToUnsigned<DF>> RoundedUnits(VF max, VF z, VF factor) {
  const DF df;
  const VF units = hn::Min(hn::Mul(hn::Sub(max, z), factor), hn::Set(df, kExpLargest));
  return hn::BitCast(hn::RebindToUnsigned<DF>(), hn::Add(units, hn::Set(df, 12582912.0f)));
}

struct Columns {
  hn::Vec<DI> offset[kVectors];
  VF scale[kVectors];
};

HWY_INLINE void LoadZ(const int32_t* sums, const Columns& columns, VF* z) {
  const DF df;
  const DI di;
  for (int i = 0; i < kVectors; ++i)
    z[i] = hn::Mul(hn::ConvertTo(df, hn::Add(hn::Load(di, sums + i * kLanes), columns.offset[i])), columns.scale[i]);
}

HWY_INLINE VF LargestOf(const VF* z) {
  VF largest = z[0];
  for (int i = 1; i < kVectors; ++i) largest = hn::Max(largest, z[i]);
  return hn::MaxOfLanes(DF(), largest);
}

// Writes a row's p, returns its sum.
HWY_INLINE int32_t FinishRow(const VF* z, VF max, float factor, int16_t* p) {
  const DF df;
  const DI di;
  const DI16 d16;
  const VF factors = hn::Set(df, factor);
  const auto ones = hn::Set(d16, 1);
  auto sum = hn::Zero(di);
  for (int i = 0; i < kVectors; i += 2) {
    const auto u =
        hn::OrderedTruncate2To(DU16(), RoundedUnits(max, z[i], factors), RoundedUnits(max, z[i + 1], factors));
    const auto e = Exp2Of(u);
    hn::Store(e, d16, p + i * kLanes);
    sum = hn::Add(sum, hn::WidenMulPairwiseAdd(di, e, ones));
  }
  return hn::ReduceSum(di, sum);
}

HWY_INLINE void MaskRow(VF* z, int begin, int end) {
  const DF df;
  const DI di;
  for (int i = 0; i < kVectors; ++i) {
    const auto key = hn::Iota(di, i * kLanes);
    const auto visible = hn::And(hn::Ge(key, hn::Set(di, begin)), hn::Lt(key, hn::Set(di, end)));
    z[i] = hn::IfThenElse(hn::RebindMask(df, visible), z[i], hn::Set(df, -std::numeric_limits<float>::infinity()));
  }
}

HWY_INLINE void EmptyRow(const ScoreTile& tile, int row) {
  const DI16 d16;
  for (int i = 0; i < kTile; i += 2 * kLanes) hn::Store(hn::Zero(d16), d16, tile.p + row * kTile + i);
  tile.max[row] = -std::numeric_limits<float>::infinity();
  tile.sum[row] = 0;
}

void Scores(const ScoreTile& tile) {
  Columns columns;
  for (int i = 0; i < kVectors; ++i) {
    columns.offset[i] = hn::Load(DI(), tile.offsets + i * kLanes);
    columns.scale[i] = hn::Load(DF(), tile.key_scales + i * kLanes);
  }
  for (int row = 0; row < tile.rows; ++row) {
    const bool masked = tile.begin != nullptr;
    if (masked && tile.begin[row] >= tile.end[row]) {
      EmptyRow(tile, row);
      continue;
    }
    VF z[kVectors];
    LoadZ(tile.sums + row * kTile, columns, z);
    if (masked) MaskRow(z, tile.begin[row], tile.end[row]);
    const VF max = LargestOf(z);
    const float factor = tile.row_factors[row];
    tile.max[row] = hn::GetLane(max) * factor;
    tile.sum[row] = FinishRow(z, max, factor, tile.p + row * kTile);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tare
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tare {

HWY_EXPORT(Scores);

void ScoreStage(const ScoreTile& tile) { HWY_DYNAMIC_DISPATCH(Scores)(tile); }

}  // namespace tare
#endif
