// SPDX-License-Identifier: Apache-2.0
// RowExp2 of row_exp2.h for vectors.
#include <cstddef>

#include "hwy/highway.h"
#include "kernels/attention/row_exp2.h"

#if defined(TARE_ROW_EXP2_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TARE_ROW_EXP2_INL_H_
#undef TARE_ROW_EXP2_INL_H_
#else
#define TARE_ROW_EXP2_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace tare {
namespace HWY_NAMESPACE {

template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V RowExp2(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
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
