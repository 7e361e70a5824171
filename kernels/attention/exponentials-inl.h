// SPDX-License-Identifier: Apache-2.0
// Those of exponentials.h for vectors: of 16-bit integers, and of f32.
#include <cstddef>

#include "kernels/attention/exponentials.h"
#include "kernels/elementwise/lanes-inl.h"

#if defined(TARE_EXPONENTIALS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TARE_EXPONENTIALS_INL_H_
#undef TARE_EXPONENTIALS_INL_H_
#else
#define TARE_EXPONENTIALS_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace tare {
namespace HWY_NAMESPACE {

// In place, step by step for all vectors: a processor does not look ahead over the steps of several vectors in turn.
template <class D, class V, size_t kCount>
HWY_INLINE void FixedExp2Of(D d, V (&u)[kCount]) {
  V f[kCount], p[kCount];
  for (size_t i = 0; i < kCount; ++i) f[i] = hn::ShiftLeft<5>(u[i]);
  for (size_t i = 0; i < kCount; ++i) u[i] = hn::ShiftRight<11>(u[i]);
  for (size_t i = 0; i < kCount; ++i) p[i] = hn::Sub(hn::Set(d, kExpC2), hn::MulHigh(f[i], hn::Set(d, kExpC3)));
  for (size_t i = 0; i < kCount; ++i) p[i] = hn::Sub(hn::Set(d, kExpC1), hn::MulHigh(f[i], p[i]));
  for (size_t i = 0; i < kCount; ++i) p[i] = hn::Sub(hn::Set(d, kExpLargest), hn::MulHigh(f[i], p[i]));
  for (size_t i = 0; i < kCount; ++i) u[i] = hn::Shr(p[i], u[i]);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V RowExp2(D d, V x) {
  const hn::RebindToSigned<D> di;
  const auto inside = hn::Ge(x, hn::Set(d, -126.0f));
  const V clamped = hn::IfThenElseZero(inside, x);
  const V n = hn::Round(clamped);
  const V f = hn::Sub(clamped, n);
  V p = hn::Set(d, kExp2Coefficients[0]);
  for (size_t i = 1; i < kExp2Coefficients.size(); ++i) p = hn::Add(hn::Mul(p, f), hn::Set(d, kExp2Coefficients[i]));
  const auto bits = hn::Add(hn::BitCast(di, p), hn::ShiftLeft<23>(hn::ConvertTo(di, n)));
  return hn::IfThenElseZero(inside, hn::BitCast(d, bits));
}

}  // namespace HWY_NAMESPACE
}  // namespace tare
HWY_AFTER_NAMESPACE();

#endif
