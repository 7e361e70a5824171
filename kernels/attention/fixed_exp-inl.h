// SPDX-License-Identifier: Apache-2.0
// FixedExp2 of fixed_exp.h for vectors of 16-bit integers.
#include "hwy/highway.h"
#include "kernels/attention/fixed_exp.h"

#if defined(TARE_FIXED_EXP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TARE_FIXED_EXP_INL_H_
#undef TARE_FIXED_EXP_INL_H_
#else
#define TARE_FIXED_EXP_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace tare {
namespace HWY_NAMESPACE {

template <class D, class V>
HWY_INLINE V FixedExp2Of(D d, V u) {
  namespace hn = hwy::HWY_NAMESPACE;
  const V f = hn::ShiftLeft<5>(u);
  V p = hn::Sub(hn::Set(d, kExpC2), hn::MulHigh(f, hn::Set(d, kExpC3)));
  p = hn::Sub(hn::Set(d, kExpC1), hn::MulHigh(f, p));
  p = hn::Sub(hn::Set(d, kExpLargest), hn::MulHigh(f, p));
  return hn::Shr(p, hn::ShiftRight<11>(u));
}

}  // namespace HWY_NAMESPACE
}  // namespace tare
HWY_AFTER_NAMESPACE();

#endif
