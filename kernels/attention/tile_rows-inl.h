// SPDX-License-Identifier: Apache-2.0
// Helpers of the stages for the rows of a tile: which lanes a row sees, four rows reduced together, 4 x 4 transposes.
#include <cstdint>

#include "hwy/highway.h"

#if defined(TARE_TILE_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TARE_TILE_ROWS_INL_H_
#undef TARE_TILE_ROWS_INL_H_
#else
#define TARE_TILE_ROWS_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace tare {
namespace HWY_NAMESPACE {

// Which of these keys of a tile its row sees: begin[row] .. end[row] - 1. d: tag of 32-bit lanes.
template <class D, class Tile, class V>
HWY_INLINE auto Visible(D d, const Tile& tile, int row, V key) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::RebindToSigned<D> di;
  return hn::RebindMask(d, hn::And(hn::Ge(key, hn::Set(di, tile.begin[row])), hn::Lt(key, hn::Set(di, tile.end[row]))));
}

struct Largest {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hwy::HWY_NAMESPACE::Max(a, b);
  }
};

struct Total {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hwy::HWY_NAMESPACE::Add(a, b);
  }
};

template <class D, class V, class Op>
HWY_INLINE auto FoldBlocks(D, V v, Op op) {
  namespace hn = hwy::HWY_NAMESPACE;
  if constexpr (HWY_MAX_LANES_D(D) <= 4) {
    return v;
  } else {
    constexpr hn::Half<D> half;
    return FoldBlocks(half, op(hn::LowerHalf(half, v), hn::UpperHalf(half, v)), op);
  }
}

// {op over a's lanes, over b's, over c's, over e's} in a vector of 4. Two rounds of interleaving inside blocks of 128
// bits, then the blocks by halves: 3 instructions per row of 512 bits instead of 8 for a row by itself.
template <class D, class V, class Op>
HWY_INLINE auto ReduceFour(D d, V a, V b, V c, V e, Op op) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::RepartitionToWide<D> wide;
  const auto ab = hn::BitCast(wide, op(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b)));
  const auto ce = hn::BitCast(wide, op(hn::InterleaveLower(d, c, e), hn::InterleaveUpper(d, c, e)));
  return FoldBlocks(
      d, op(hn::BitCast(d, hn::InterleaveLower(wide, ab, ce)), hn::BitCast(d, hn::InterleaveUpper(wide, ab, ce))), op);
}

// Calls store(i, {a[i], b[i], c[i], e[i]}) for i of 0 to 3; d: tag of four 32-bit lanes.
template <class D, class V, class Store>
HWY_INLINE void TransposeFour(D d, V a, V b, V c, V e, Store store) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::RepartitionToWide<D> wide;
  const auto ab_low = hn::BitCast(wide, hn::InterleaveLower(d, a, b));
  const auto ab_high = hn::BitCast(wide, hn::InterleaveUpper(d, a, b));
  const auto ce_low = hn::BitCast(wide, hn::InterleaveLower(d, c, e));
  const auto ce_high = hn::BitCast(wide, hn::InterleaveUpper(d, c, e));
  store(0, hn::BitCast(d, hn::InterleaveLower(wide, ab_low, ce_low)));
  store(1, hn::BitCast(d, hn::InterleaveUpper(wide, ab_low, ce_low)));
  store(2, hn::BitCast(d, hn::InterleaveLower(wide, ab_high, ce_high)));
  store(3, hn::BitCast(d, hn::InterleaveUpper(wide, ab_high, ce_high)));
}

}  // namespace HWY_NAMESPACE
}  // namespace tare
HWY_AFTER_NAMESPACE();

#endif
