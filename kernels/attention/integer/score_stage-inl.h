// SPDX-License-Identifier: Apache-2.0
// See score_stage.h; logit_stage-inl.h uses this file's z by vectors. stages.cc compiles both once for each set.
#include "kernels/attention/integer/score_stage.h"

#include <limits>

#include "quant/base/integers.h"

#include "hwy/contrib/math/math-inl.h"
#include "kernels/attention/exponentials-inl.h"
#include "kernels/elementwise/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tare {
namespace HWY_NAMESPACE::score_stage {

constexpr int kVectors = kTile / kLanes;
using DU16 = hn::Repartition<uint16_t, DF>;
using DI16 = hn::Repartition<int16_t, DF>;

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

template <class Logits>
class CappedTileLogits {
 public:
  HWY_INLINE explicit CappedTileLogits(const LogitSums& sums) : row_cap_(sums.row_cap), plain_(sums) {}

  HWY_INLINE VF operator()(int row, int i) const {
    const VF cap = hn::Set(DF(), row_cap_[row]);
    return hn::Mul(cap, hn::Tanh(DF(), hn::Div(plain_(row, i), cap)));
  }

 private:
  const float* row_cap_;
  Logits plain_;
};

// run(z) of what these sums need.
template <class Run>
HWY_INLINE void WithLogits(const LogitSums& sums, Run run) {
  if (sums.key_bias == nullptr && sums.row_cap == nullptr) return run(TileLogits(sums));
  if (sums.row_cap == nullptr) return run(BiasedTileLogits(sums));
  if (sums.key_bias == nullptr) return run(CappedTileLogits<TileLogits>(sums));
  run(CappedTileLogits<BiasedTileLogits>(sums));
}

struct AllVisible {
  HWY_INLINE VF operator()(VF z, int /*row*/, int /*i*/) const { return z; }
};

// -inf where a row does not see the key.
struct SomeVisible {
  const LogitSums& logits;
  HWY_INLINE VF operator()(VF z, int row, int i) const {
    return hn::IfThenElse(Visible(DF(), logits, row, hn::Load(DI(), kColumnKeys.data() + i * kLanes)), z,
                          hn::Set(DF(), -std::numeric_limits<float>::infinity()));
  }
};

// Logits of 16 rows at a time, so that no row waits for its own maximum. They stay in the first cache.
struct SomeLogits {
  HWY_ALIGN float z[kRowStep * kTile];  // [16][64]
  HWY_ALIGN float max[kRowStep];
};

// z and maxima of `count` rows from `first` on.
template <class Logits, class Mask>
HWY_INLINE void Maxima(const ScoreTile& tile, const Logits& logits, Mask mask, int first, int count, SomeLogits& some) {
  const DF df;
  const hn::BlockDFromD<DF> block;
  for (int row = 0; row < count; row += 4) {
    VF largest[4];
    for (int r = 0; r < 4; ++r) {
      const int at = first + row + r;
      float* z = some.z + (row + r) * kTile;
      for (int i = 0; i < kVectors; ++i) {
        const VF here = mask(logits(at, i), at, i);
        hn::Store(here, df, z + i * kLanes);
        largest[r] = i == 0 ? here : hn::Max(largest[r], here);
      }
    }
    const auto four = ReduceFour(df, largest[0], largest[1], largest[2], largest[3], Largest());
    hn::Store(four, block, some.max + row);
    hn::Store(hn::Mul(four, hn::Load(block, tile.row_factors + first + row)), block, tile.max + first + row);
  }
}

// round_half_even((max - z) * factor), one rounding; larger than any 16 bits where it is.
HWY_INLINE VI Units(VF max, VF z, VF factor) {
  const VF magic = hn::Set(DF(), kToNearest);
  return hn::Sub(hn::BitCast(DI(), hn::MulAdd(hn::Sub(max, z), factor, magic)), hn::BitCast(DI(), magic));
}

constexpr int kRowsTogether = kLanes == 16 ? 4 : 1;  // whose exponentials are made side by side, as registers allow
constexpr int kExpVectors = kTile / (2 * kLanes);    // of a row

// Writes the exponentials of kRowsTogether rows, and lanes that add up to each one's sum. Packing saturates: the
// formula's 32767.
template <bool kSums>
HWY_INLINE void FinishRows(const float* z, const float* max, const float* factors, int16_t* exps, VI* sums) {
  const DF df;
  const DI di;
  const DI16 d16;
  hn::Vec<DU16> e[kRowsTogether * kExpVectors];
  for (int i = 0; i < kRowsTogether * kExpVectors; ++i) {
    const int r = i / kExpVectors, place = i % kExpVectors * 2 * kLanes;
    const float* columns = z + r * kTile + place / 32 * 32 + place % 32 / 2;
    const VF most = hn::Set(df, max[r]), factor = hn::Set(df, factors[r]);
    const VI low = Units(most, hn::Load(df, columns), factor), high = Units(most, hn::Load(df, columns + 16), factor);
    e[i] = hn::BitCast(DU16(), hn::ReorderDemote2To(d16, low, high));
  }
  FixedExp2Of(DU16(), e);
  for (int i = 0; i < kRowsTogether * kExpVectors; ++i) hn::Store(hn::BitCast(d16, e[i]), d16, exps + i * 2 * kLanes);
  for (int r = 0; kSums && r < kRowsTogether; ++r) {
    VI sum = hn::Zero(di), odd = hn::Zero(di);
    for (int i = 0; i < kExpVectors; ++i)
      sum = hn::ReorderWidenMulAccumulate(di, hn::BitCast(d16, e[r * kExpVectors + i]), hn::Set(d16, 1), sum, odd);
    sums[r] = hn::Add(sum, odd);
  }
}

template <bool kSums>
HWY_INLINE void Finish(const ScoreTile& tile, int first, int count, const SomeLogits& some) {
  const DI di;
  const hn::BlockDFromD<DI> block;
  for (int row = 0; row < count; row += 4) {
    VI sum[4];
    for (int r = row; r < row + 4; r += kRowsTogether) {
      FinishRows<kSums>(some.z + r * kTile, some.max + r, tile.row_factors + first + r, tile.exps + (first + r) * kTile,
                        sum + (r - row));
    }
    if constexpr (kSums)
      hn::Store(ReduceFour(di, sum[0], sum[1], sum[2], sum[3], Total()), block, tile.exp_sums + first + row);
  }
}

template <class Logits, class Mask>
HWY_INLINE void Rows(const ScoreTile& tile, const Logits& logits, Mask mask) {
  SomeLogits some;
  for (int first = 0; first < tile.logits.rows; first += kRowStep) {
    const int count = HWY_MIN(kRowStep, tile.logits.rows - first);
    Maxima(tile, logits, mask, first, count, some);
    if (tile.exp_sums == nullptr)
      Finish<false>(tile, first, count, some);
    else
      Finish<true>(tile, first, count, some);
  }
}

// Clears rows that see nothing here: their maximum is -inf already, and NaN of -inf - -inf left exps undefined.
void ClearEmptyRows(const ScoreTile& tile) {
  const DI16 d16;
  for (int row = 0; row < tile.logits.rows; ++row) {
    if (tile.logits.begin[row] < tile.logits.end[row]) continue;
    for (int i = 0; i < kTile; i += 2 * kLanes) hn::Store(hn::Zero(d16), d16, tile.exps + row * kTile + i);
    tile.max[row] = -std::numeric_limits<float>::infinity();
    if (tile.exp_sums != nullptr) tile.exp_sums[row] = 0;
  }
}

void Scores(const ScoreTile& tile) {
  WithLogits(tile.logits, [&](const auto& z) HWY_ATTR {
    if (tile.logits.begin == nullptr) return Rows(tile, z, AllVisible());
    Rows(tile, z, SomeVisible{tile.logits});
    ClearEmptyRows(tile);
  });
}

}  // namespace HWY_NAMESPACE::score_stage
}  // namespace tare
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tare {

void ScoreStage(const ScoreTile& tile) { TARE_CHOSEN(score_stage::Scores)(tile); }

}  // namespace tare
#endif
