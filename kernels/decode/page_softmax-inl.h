// SPDX-License-Identifier: Apache-2.0
// See page_softmax.h. stages.cc compiles this file, once for each instruction set.
#include "kernels/decode/page_softmax.h"

#include <limits>

#include "kernels/cache/page_layout.h"

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "kernels/attention/exponentials-inl.h"
#include "kernels/elementwise/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tare {
namespace HWY_NAMESPACE::page_softmax {

constexpr int kVectors = kPageTokens / kLanes;

// Keys i .. i + lanes of those in a range.
HWY_INLINE hn::Mask<DF> In(const KeyRange& keys, int i) {
  const DI di;
  const auto key = hn::Iota(di, i);
  return hn::RebindMask(DF(), hn::And(hn::Ge(key, hn::Set(di, static_cast<int32_t>(keys.begin))),
                                      hn::Lt(key, hn::Set(di, static_cast<int32_t>(keys.end)))));
}

// Sums of x[i] over i = j (mod 16), (x[j] + x[j + 16]) + (x[j + 32] + x[j + 48]), then of these: in one order.
HWY_INLINE float SumOf(const VF (&x)[kVectors]) {
  constexpr int kOf16 = 16 / kLanes;
  VF sums[kOf16];
  for (int j = 0; j < kOf16; ++j)
    sums[j] = hn::Add(hn::Add(x[j], x[j + kOf16]), hn::Add(x[j + 2 * kOf16], x[j + 3 * kOf16]));
  return SumOfSixteen(DF(), sums);
}

// What is not seen: -inf less the largest, or less itself, which is NaN; both give 0. kWhole: of a page that is seen.
template <bool kWhole>
HWY_INLINE SoftmaxSum ExponentialsOf(const PartLogits& x, float* p) {
  const DF d;
  const VF factor = hn::Set(d, x.factor), cap = hn::Set(d, x.cap);
  const VF none = hn::Set(d, -std::numeric_limits<float>::infinity());
  VF s[kVectors], largest = none;
  for (int v = 0; v < kVectors; ++v) {
    VF y = hn::Load(d, x.products + v * kLanes);
    if (x.key_scales != nullptr) y = hn::Mul(y, hn::Load(d, x.key_scales + v * kLanes));
    y = hn::Mul(y, factor);
    if (x.cap != 0) y = hn::Mul(cap, hn::Tanh(d, hn::Div(y, cap)));
    s[v] = kWhole ? y : hn::IfThenElse(In(x.seen, v * kLanes), y, none);
    largest = hn::Max(largest, s[v]);
  }
  const VF max = hn::MaxOfLanes(d, largest);
  for (int v = 0; v < kVectors; ++v) {
    s[v] = RowExp2(d, hn::Sub(s[v], max));
    kWhole ? hn::Store(s[v], d, p + v * kLanes) : hn::BlendedStore(s[v], In(x.keys, v * kLanes), d, p + v * kLanes);
  }
  return {hn::GetLane(max), SumOf(s)};
}

SoftmaxSum Exponentials(const PartLogits& x, float* p) {
  return x.seen.end - x.seen.begin == kPageTokens ? ExponentialsOf<true>(x, p) : ExponentialsOf<false>(x, p);
}

void Totals(const float* max, float* sum, int64_t parts, int64_t stride, float* total_max, float* inverse) {
  const DF d;
  for (int64_t j = 0; j < kMapsAtOnce; j += kLanes) {
    VF largest = hn::Set(d, -std::numeric_limits<float>::infinity()), total = hn::Zero(d);
    for (int64_t i = 0; i < parts; ++i) largest = hn::Max(largest, hn::LoadU(d, max + i * stride + j));
    for (int64_t i = 0; i < parts; ++i) {
      const VF share = RowExp2(d, hn::Sub(hn::LoadU(d, max + i * stride + j), largest));
      total = hn::Add(total, hn::Mul(share, hn::LoadU(d, sum + i * stride + j)));
      hn::StoreU(share, d, sum + i * stride + j);
    }
    hn::StoreU(largest, d, total_max + j);
    const auto seen = hn::Gt(total, hn::Zero(d));
    const VF part = hn::IfThenElseZero(seen, hn::Div(hn::Set(d, 1.0f), total));
    hn::StoreU(part, d, inverse + j);
    for (int64_t i = 0; i < parts; ++i)
      hn::StoreU(hn::Mul(hn::LoadU(d, sum + i * stride + j), part), d, sum + i * stride + j);
  }
}

float Difference(const PageMap& first, const PageMap& second, const KeyRange& keys, float* out) {
  const DF d;
  const VF a = hn::Set(d, first.weight), b = hn::Set(d, second.weight);
  VF size[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    VF x = hn::Mul(hn::Load(d, first.p + v * kLanes), a);
    if (second.p != nullptr) x = hn::Sub(x, hn::Mul(hn::Load(d, second.p + v * kLanes), b));
    x = hn::IfThenElseZero(In(keys, v * kLanes), x);
    hn::Store(x, d, out + v * kLanes);
    size[v] = hn::Abs(x);
  }
  return SumOf(size);
}

}  // namespace HWY_NAMESPACE::page_softmax
}  // namespace tare
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tare {

SoftmaxSum ExponentialsOfPart(const PartLogits& logits, float* p) {
  return TARE_CHOSEN(page_softmax::Exponentials)(logits, p);
}

void TotalsOfMaps(const float* max, float* sum, int64_t parts, int64_t stride, float* total_max, float* inverse) {
  TARE_CHOSEN(page_softmax::Totals)(max, sum, parts, stride, total_max, inverse);
}

float DifferenceOfPart(const PageMap& first, const PageMap& second, const KeyRange& keys, float* d) {
  return TARE_CHOSEN(page_softmax::Difference)(first, second, keys, d);
}

}  // namespace tare
#endif
