// SPDX-License-Identifier: Apache-2.0
// See score_stage.h.
#include "kernels/attention/score_stage.h"

#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/score_stage.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/attention/fixed_exp-inl.h"
#include "kernels/attention/reduce_four-inl.h"

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

struct Columns {
  hn::Vec<DI> offset[kVectors];
  VF scale[kVectors];
};

HWY_INLINE VF LoadZ(const int32_t* sums, const Columns& columns, int i) {
  const DF df;
  return hn::Mul(hn::ConvertTo(df, hn::Add(hn::Load(DI(), sums + i * kLanes), columns.offset[i])), columns.scale[i]);
}

// Lanes of z that a row sees; -inf elsewhere.
HWY_INLINE VF Masked(VF z, int i, int begin, int end) {
  const DF df;
  const DI di;
  const auto key = hn::Iota(di, i * kLanes);
  const auto visible = hn::And(hn::Ge(key, hn::Set(di, begin)), hn::Lt(key, hn::Set(di, end)));
  return hn::IfThenElse(hn::RebindMask(df, visible), z, hn::Set(df, -std::numeric_limits<float>::infinity()));
}

struct AllVisible {
  HWY_INLINE VF operator()(VF z, int /*i*/, int /*row*/) const { return z; }
};

struct SomeVisible {
  const ScoreTile& tile;
  HWY_INLINE VF operator()(VF z, int i, int row) const { return Masked(z, i, tile.begin[row], tile.end[row]); }
};

// Maxima of all rows; recomputing z afterwards is cheaper than storing it.
template <class Mask>
HWY_INLINE void Maxima(const ScoreTile& tile, const Columns& columns, Mask mask, float* max) {
  const DF df;
  const hn::BlockDFromD<DF> block;
  for (int row = 0; row < tile.rows; row += 4) {
    VF largest[4];
    for (int r = 0; r < 4; ++r) {
      largest[r] = mask(LoadZ(tile.sums + (row + r) * kTile, columns, 0), 0, row + r);
      for (int i = 1; i < kVectors; ++i)
        largest[r] = hn::Max(largest[r], mask(LoadZ(tile.sums + (row + r) * kTile, columns, i), i, row + r));
    }
    const auto four = ReduceFour(df, largest[0], largest[1], largest[2], largest[3], Largest());
    hn::Store(four, block, max + row);
    hn::Store(hn::Mul(four, hn::Load(block, tile.row_factors + row)), block, tile.max + row);
  }
}

// round_half_even((max - z) * factor) in the low bits of its sum with 1.5 * 2^23, one rounding.
HWY_INLINE hn::Vec<hn::RebindToUnsigned<DF>> Units(VF max, VF z, VF factor) {
  constexpr float kMagic = 12582912.0f;
  const DF df;
  const VF units = hn::MulAdd(hn::Sub(max, z), factor, hn::Set(df, kMagic));
  return hn::BitCast(hn::RebindToUnsigned<DF>(), hn::Min(units, hn::Set(df, kMagic + kExpLargest)));
}

// Writes a row's p, returns lanes that sum to theirs.
template <class Mask>
HWY_INLINE hn::Vec<DI> FinishRow(const ScoreTile& tile, const Columns& columns, Mask mask, const float* max, int row) {
  const DF df;
  const DI di;
  const DI16 d16;
  const VF largest = hn::Set(df, max[row]), factor = hn::Set(df, tile.row_factors[row]);
  const int32_t* sums = tile.sums + row * kTile;
  auto sum = hn::Zero(di);
  for (int i = 0; i < kVectors; i += 2) {
    const auto low = Units(largest, mask(LoadZ(sums, columns, i), i, row), factor);
    const auto high = Units(largest, mask(LoadZ(sums, columns, i + 1), i + 1, row), factor);
    const auto e = hn::BitCast(d16, FixedExp2Of(DU16(), hn::OrderedTruncate2To(DU16(), low, high)));
    hn::Store(e, d16, tile.p + row * kTile + i * kLanes);
    sum = hn::Add(sum, hn::WidenMulPairwiseAdd(di, e, hn::Set(d16, 1)));
  }
  return sum;
}

template <class Mask>
HWY_INLINE void Rows(const ScoreTile& tile, Mask mask) {
  const DI di;
  const hn::BlockDFromD<DI> block;
  Columns columns;
  for (int i = 0; i < kVectors; ++i) {
    columns.offset[i] = hn::Load(di, tile.offsets + i * kLanes);
    columns.scale[i] = hn::Load(DF(), tile.key_scales + i * kLanes);
  }
  HWY_ALIGN float max[kLargestRows];
  Maxima(tile, columns, mask, max);
  for (int row = 0; row < tile.rows; row += 4) {
    hn::Vec<DI> sum[4];
    for (int r = 0; r < 4; ++r) sum[r] = FinishRow(tile, columns, mask, max, row + r);
    hn::Store(ReduceFour(di, sum[0], sum[1], sum[2], sum[3], Total()), block, tile.sum + row);
  }
}

// Rows that see nothing here: their maximum is -inf already, and NaN of -inf - -inf made p what it likes.
void ClearEmptyRows(const ScoreTile& tile) {
  const DI16 d16;
  for (int row = 0; row < tile.rows; ++row) {
    if (tile.begin[row] < tile.end[row]) continue;
    for (int i = 0; i < kTile; i += 2 * kLanes) hn::Store(hn::Zero(d16), d16, tile.p + row * kTile + i);
    tile.max[row] = -std::numeric_limits<float>::infinity();
    tile.sum[row] = 0;
  }
}

void Scores(const ScoreTile& tile) {
  if (tile.begin == nullptr) return Rows(tile, AllVisible());
  Rows(tile, SomeVisible{tile});
  ClearEmptyRows(tile);
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
