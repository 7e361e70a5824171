// SPDX-License-Identifier: Apache-2.0
// The sum of 16 floats in one order, whatever the vectors' width: x[j] and x[j + 8], of these sums j and j + 4, then
// j + 2, then j + 1. So a sum that is kept in 16 parts has the same bits on every instruction set.
#include "hwy/highway.h"

#if defined(TARE_ORDERED_SUM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TARE_ORDERED_SUM_INL_H_
#undef TARE_ORDERED_SUM_INL_H_
#else
#define TARE_ORDERED_SUM_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace tare {
namespace HWY_NAMESPACE {

// Of a vector's lanes.
template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE float SumByHalves(D, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  if constexpr (HWY_MAX_LANES_D(D) == 1) {
    return hn::GetLane(x);
  } else {
    const hn::Half<D> half;
    return SumByHalves(half, hn::Add(hn::LowerHalf(half, x), hn::UpperHalf(half, x)));
  }
}

// x [16 / lanes] vectors, which it overwrites.
template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE float SumOfSixteen(D d, V* x) {
  for (int n = 16 / HWY_MAX_LANES_D(D) / 2; n > 0; n /= 2) {
    for (int j = 0; j < n; ++j) x[j] = hwy::HWY_NAMESPACE::Add(x[j], x[j + n]);
  }
  return SumByHalves(d, x[0]);
}

}  // namespace HWY_NAMESPACE
}  // namespace tare
HWY_AFTER_NAMESPACE();

#endif
