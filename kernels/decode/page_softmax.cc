// SPDX-License-Identifier: Apache-2.0
// See page_softmax.h.
#include "kernels/decode/page_softmax.h"

#include <algorithm>
#include <limits>

#include "kernels/cache/page_layout.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/decode/page_softmax.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/attention/row_exp2-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tare {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::CappedTag<float, 16>;
using DI = hn::RebindToSigned<DF>;
using VF = hn::Vec<DF>;
constexpr int kLanes = HWY_MAX_LANES_D(DF);

// s into p; what is not seen is -inf. Returns the largest.
HWY_INLINE float Logits(const PageLogits& x, float* p) {
  const DF d;
  const DI di;
  const VF none = hn::Set(d, -std::numeric_limits<float>::infinity()), factor = hn::Set(d, x.factor);
  VF largest = none;
  for (int i = 0; i < kPageTokens; i += kLanes) {
    VF s = hn::Load(d, x.products + i);
    if (x.key_scales != nullptr) s = hn::Mul(s, hn::Load(d, x.key_scales + i));
    const auto key = hn::Iota(di, i);
    const auto seen = hn::And(hn::Ge(key, hn::Set(di, x.begin)), hn::Lt(key, hn::Set(di, x.end)));
    s = hn::IfThenElse(hn::RebindMask(d, seen), hn::Mul(s, factor), none);
    largest = hn::Max(largest, s);
    hn::Store(s, d, p + i);
  }
  return hn::ReduceMax(d, largest);
}

// Sums of p[i] over i = j (mod 16), (p[j] + p[j + 16]) + (p[j + 32] + p[j + 48]), then j with j + 8, + 4, + 2, + 1.
HWY_INLINE float Exponentials(float max, float* p) {
  const DF d;
  const VF m = hn::Set(d, max);
  for (int i = 0; i < kPageTokens; i += kLanes) hn::Store(RowExp2(d, hn::Sub(hn::Load(d, p + i), m)), d, p + i);
  HWY_ALIGN float sums[16];
  for (int j = 0; j < 16; j += kLanes) {
    const VF a = hn::Add(hn::Load(d, p + j), hn::Load(d, p + j + 16));
    const VF b = hn::Add(hn::Load(d, p + j + 32), hn::Load(d, p + j + 48));
    hn::Store(hn::Add(a, b), d, sums + j);
  }
  const hn::FixedTag<float, 4> d4;
  const auto a = hn::Add(hn::Load(d4, sums), hn::Load(d4, sums + 8));
  const auto b = hn::Add(hn::Load(d4, sums + 4), hn::Load(d4, sums + 12));
  hn::Store(hn::Add(a, b), d4, sums);
  return (sums[0] + sums[2]) + (sums[1] + sums[3]);
}

float Softmax(const PageLogits& logits, RunningSoftmax* state, float* p) {
  const float max = std::max(state->max, Logits(logits, p));
  if (max == -std::numeric_limits<float>::infinity()) {
    std::fill_n(p, kPageTokens, 0.0f);
    return 1.0f;
  }
  const float rescale = tare::RowExp2(state->max - max);
  state->sum = state->sum * rescale + Exponentials(max, p);
  state->max = max;
  return rescale;
}

void Multiply(float* y, float factor, int n) {
  const DF d;
  for (int i = 0; i < n; i += kLanes) hn::Store(hn::Mul(hn::Load(d, y + i), hn::Set(d, factor)), d, y + i);
}

}  // namespace HWY_NAMESPACE
}  // namespace tare
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tare {

HWY_EXPORT(Softmax);
HWY_EXPORT(Multiply);

float SoftmaxOfPage(const PageLogits& logits, RunningSoftmax& state, float* p) {
  return HWY_DYNAMIC_DISPATCH(Softmax)(logits, &state, p);
}

void Rescale(float* y, float factor, int n) { HWY_DYNAMIC_DISPATCH(Multiply)(y, factor, n); }

}  // namespace tare
#endif
