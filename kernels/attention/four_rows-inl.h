// SPDX-License-Identifier: Apache-2.0
// Four rows' vectors reduced together: {op over a's lanes, over b's, over c's, over d's} in a vector of 4. Two rounds
// of interleaving inside blocks of 128 bits, then the blocks by halves: 3 instructions per row of 512 bits instead of 8
// for a row by itself.
#include "hwy/highway.h"

#if defined(TARE_FOUR_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TARE_FOUR_ROWS_INL_H_
#undef TARE_FOUR_ROWS_INL_H_
#else
#define TARE_FOUR_ROWS_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace tare {
namespace HWY_NAMESPACE {

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

// d: tag of 32-bit lanes.
template <class D, class V, class Op>
HWY_INLINE auto ReduceFour(D d, V a, V b, V c, V e, Op op) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::RepartitionToWide<D> wide;
  const auto ab = hn::BitCast(wide, op(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b)));
  const auto ce = hn::BitCast(wide, op(hn::InterleaveLower(d, c, e), hn::InterleaveUpper(d, c, e)));
  return FoldBlocks(
      d, op(hn::BitCast(d, hn::InterleaveLower(wide, ab, ce)), hn::BitCast(d, hn::InterleaveUpper(wide, ab, ce))), op);
}

}  // namespace HWY_NAMESPACE
}  // namespace tare
HWY_AFTER_NAMESPACE();

#endif
