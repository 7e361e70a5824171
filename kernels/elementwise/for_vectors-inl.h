// SPDX-License-Identifier: Apache-2.0
// Runs over a row of f32 in vectors as wide as the target's: whole vectors first, then the tail with fewer lanes.
#include <cstddef>

#include "hwy/highway.h"

#if defined(TARE_FOR_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TARE_FOR_VECTORS_INL_H_
#undef TARE_FOR_VECTORS_INL_H_
#else
#define TARE_FOR_VECTORS_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace tare {
namespace HWY_NAMESPACE {

using D = hwy::HWY_NAMESPACE::ScalableTag<float>;
using V = hwy::HWY_NAMESPACE::Vec<D>;

// Calls body(index of the first value, lanes).
template <typename Body>
HWY_INLINE void ForVectors(size_t n, Body body) {
  const size_t lanes = hwy::HWY_NAMESPACE::Lanes(D());
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) body(i, lanes);
  if (i < n) body(i, n - i);
}

}  // namespace HWY_NAMESPACE
}  // namespace tare
HWY_AFTER_NAMESPACE();

#endif
