// SPDX-License-Identifier: Apache-2.0
// See score_stage.h.
#include "kernels/attention/integer/score_stage.h"

#include <limits>

#include "kernels/elementwise/to_nearest.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/integer/score_stage.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/attention/fixed_exp-inl.h"
#include "kernels/attention/integer/score_stage-inl.h"
#include "kernels/attention/tile_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tare {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DU16 = hn::Repartition<uint16_t, DF>;
using DI16 = hn::Repartition<int16_t, DF>;

struct AllVisible {
  HWY_INLINE VF operator()(VF z, int /*row*/, int /*i*/) const { return z; }
};

// -inf where a row does not see the key.
struct SomeVisible {
  const LogitSums& logits;
  HWY_INLINE VF operator()(VF z, int row, int i) const {
    return hn::IfThenElse(Visible(DF(), logits, row, i * kLanes), z,
                          hn::Set(DF(), -std::numeric_limits<float>::infinity()));
  }
};

// Maxima of all rows; recomputing z afterwards is cheaper than storing it.
template <class Logits, class Mask>
HWY_INLINE void Maxima(const ScoreTile& tile, const Logits& z, Mask mask, float* max) {
  const DF df;
  const hn::BlockDFromD<DF> block;
  for (int row = 0; row < tile.logits.rows; row += 4) {
    VF largest[4];
    for (int r = 0; r < 4; ++r) {
      largest[r] = mask(z(row + r, 0), row + r, 0);
      for (int i = 1; i < kVectors; ++i) largest[r] = hn::Max(largest[r], mask(z(row + r, i), row + r, i));
    }
    const auto four = ReduceFour(df, largest[0], largest[1], largest[2], largest[3], Largest());
    hn::Store(four, block, max + row);
    hn::Store(hn::Mul(four, hn::Load(block, tile.row_factors + row)), block, tile.max + row);
  }
}

// round_half_even((max - z) * factor) in the low bits, one rounding.
HWY_INLINE hn::Vec<hn::RebindToUnsigned<DF>> Units(VF max, VF z, VF factor) {
  const DF df;
  const VF units = hn::MulAdd(hn::Sub(max, z), factor, hn::Set(df, kToNearest));
  return hn::BitCast(hn::RebindToUnsigned<DF>(), hn::Min(units, hn::Set(df, kToNearest + kExpLargest)));
}

// Writes a row's exponentials, returns lanes that sum to theirs.
template <class Logits, class Mask>
HWY_INLINE hn::Vec<DI> FinishRow(const ScoreTile& tile, const Logits& z, Mask mask, const float* max, int row) {
  const DF df;
  const DI di;
  const DI16 d16;
  const VF largest = hn::Set(df, max[row]), factor = hn::Set(df, tile.row_factors[row]);
  auto sum = hn::Zero(di);
  for (int i = 0; i < kVectors; i += 2) {
    const auto low = Units(largest, mask(z(row, i), row, i), factor);
    const auto high = Units(largest, mask(z(row, i + 1), row, i + 1), factor);
    const auto e = hn::BitCast(d16, FixedExp2Of(DU16(), hn::OrderedTruncate2To(DU16(), low, high)));
    hn::Store(e, d16, tile.exps + row * kTile + i * kLanes);
    sum = hn::Add(sum, hn::WidenMulPairwiseAdd(di, e, hn::Set(d16, 1)));
  }
  return sum;
}

template <class Logits, class Mask>
HWY_INLINE void Rows(const ScoreTile& tile, const Logits& z, Mask mask) {
  const DI di;
  const hn::BlockDFromD<DI> block;
  HWY_ALIGN float max[kLargestRows];
  Maxima(tile, z, mask, max);
  for (int row = 0; row < tile.logits.rows; row += 4) {
    hn::Vec<DI> sum[4];
    for (int r = 0; r < 4; ++r) sum[r] = FinishRow(tile, z, mask, max, row + r);
    hn::Store(ReduceFour(di, sum[0], sum[1], sum[2], sum[3], Total()), block, tile.exp_sums + row);
  }
}

// Rows that see nothing here: their maximum is -inf already, and NaN of -inf - -inf made exps what it likes.
void ClearEmptyRows(const ScoreTile& tile) {
  const DI16 d16;
  for (int row = 0; row < tile.logits.rows; ++row) {
    if (tile.logits.begin[row] < tile.logits.end[row]) continue;
    for (int i = 0; i < kTile; i += 2 * kLanes) hn::Store(hn::Zero(d16), d16, tile.exps + row * kTile + i);
    tile.max[row] = -std::numeric_limits<float>::infinity();
    tile.exp_sums[row] = 0;
  }
}

template <class Logits>
HWY_INLINE void ScoresOf(const ScoreTile& tile) {
  const Logits z(tile.logits);
  if (tile.logits.begin == nullptr) return Rows(tile, z, AllVisible());
  Rows(tile, z, SomeVisible{tile.logits});
  ClearEmptyRows(tile);
}

void Scores(const ScoreTile& tile) {
  if (tile.logits.key_bias == nullptr)
    ScoresOf<TileLogits>(tile);
  else
    ScoresOf<BiasedTileLogits>(tile);
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
