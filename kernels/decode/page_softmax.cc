// SPDX-License-Identifier: Apache-2.0
// See page_softmax.h.
#include "kernels/decode/page_softmax.h"

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

// Keys i .. i + lanes of those from begin to end.
HWY_INLINE hn::Mask<DF> Seen(int i, int begin, int end) {
  const DI di;
  const auto key = hn::Iota(di, i);
  return hn::RebindMask(DF(), hn::And(hn::Ge(key, hn::Set(di, begin)), hn::Lt(key, hn::Set(di, end))));
}

void Logits(const PageLogits* x, float* s) {
  const DF d;
  const VF factor = hn::Set(d, x->factor);
  for (int i = 0; i < kPageTokens; i += kLanes) {
    VF y = hn::Load(d, x->products + i);
    if (x->key_scales != nullptr) y = hn::Mul(y, hn::Load(d, x->key_scales + i));
    hn::Store(hn::IfThenElse(Seen(i, x->begin, x->end), hn::Mul(y, factor), hn::Load(d, s + i)), d, s + i);
  }
}

// Sums of x[i] over i = j (mod 16), (x[j] + x[j + 16]) + (x[j + 32] + x[j + 48]), then j with j + 8, + 4, + 2, + 1: in
// one order, whatever the vectors' width.
template <class Value>
HWY_INLINE float SumOf(const float* x, Value value) {
  const DF d;
  HWY_ALIGN float sums[16];
  for (int j = 0; j < 16; j += kLanes) {
    const VF a = hn::Add(value(hn::Load(d, x + j)), value(hn::Load(d, x + j + 16)));
    const VF b = hn::Add(value(hn::Load(d, x + j + 32)), value(hn::Load(d, x + j + 48)));
    hn::Store(hn::Add(a, b), d, sums + j);
  }
  const hn::FixedTag<float, 4> d4;
  const auto a = hn::Add(hn::Load(d4, sums), hn::Load(d4, sums + 8));
  const auto b = hn::Add(hn::Load(d4, sums + 4), hn::Load(d4, sums + 12));
  hn::Store(hn::Add(a, b), d4, sums);
  return (sums[0] + sums[2]) + (sums[1] + sums[3]);
}

// What is not seen: -inf less the largest, or less itself, which is NaN; both give 0.
void Exponentials(float* s, SoftmaxSum* sum) {
  const DF d;
  VF largest = hn::Load(d, s);
  for (int i = kLanes; i < kPageTokens; i += kLanes) largest = hn::Max(largest, hn::Load(d, s + i));
  const VF max = hn::MaxOfLanes(d, largest);
  for (int i = 0; i < kPageTokens; i += kLanes) hn::Store(RowExp2(d, hn::Sub(hn::Load(d, s + i), max)), d, s + i);
  *sum = {hn::GetLane(max), SumOf(s, [](VF x) HWY_ATTR { return x; })};
}

void Totals(const float* max, const float* sum, int64_t pages, int64_t stride, float* total_max, float* inverse) {
  const DF d;
  for (int64_t j = 0; j < kMapsAtOnce; j += kLanes) {
    VF largest = hn::Set(d, -std::numeric_limits<float>::infinity()), total = hn::Zero(d);
    for (int64_t i = 0; i < pages; ++i) largest = hn::Max(largest, hn::LoadU(d, max + i * stride + j));
    for (int64_t i = 0; i < pages; ++i) {
      const VF share = RowExp2(d, hn::Sub(hn::LoadU(d, max + i * stride + j), largest));
      total = hn::Add(total, hn::Mul(share, hn::LoadU(d, sum + i * stride + j)));
    }
    hn::StoreU(largest, d, total_max + j);
    const auto seen = hn::Gt(total, hn::Zero(d));
    hn::StoreU(hn::IfThenElseZero(seen, hn::Div(hn::Set(d, 1.0f), total)), d, inverse + j);
  }
}

void Shares(const float* max, const float* total_max, const float* inverse, int64_t count, float* share) {
  const DF d;
  for (int64_t j = 0; j < count; j += kLanes) {
    const VF below = hn::Sub(hn::LoadU(d, max + j), hn::LoadU(d, total_max + j));
    hn::StoreU(hn::Mul(RowExp2(d, below), hn::LoadU(d, inverse + j)), d, share + j);
  }
}

void Difference(const PageMap* first, const PageMap* second, int begin, int end, float* out, float* weight) {
  const DF d;
  const VF a = hn::Set(d, first->weight), b = hn::Set(d, second->weight);
  for (int i = 0; i < kPageTokens; i += kLanes) {
    VF x = hn::Mul(hn::Load(d, first->p + i), a);
    if (second->p != nullptr) x = hn::Sub(x, hn::Mul(hn::Load(d, second->p + i), b));
    hn::Store(hn::IfThenElseZero(Seen(i, begin, end), x), d, out + i);
  }
  *weight = SumOf(out, [](VF x) HWY_ATTR { return hn::Abs(x); });
}

}  // namespace HWY_NAMESPACE
}  // namespace tare
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tare {

HWY_EXPORT(Logits);
HWY_EXPORT(Exponentials);
HWY_EXPORT(Totals);
HWY_EXPORT(Shares);
HWY_EXPORT(Difference);

void LogitsOfPage(const PageLogits& logits, float* s) { HWY_DYNAMIC_DISPATCH(Logits)(&logits, s); }

SoftmaxSum ExponentialsOfPage(float* s) {
  SoftmaxSum sum;
  HWY_DYNAMIC_DISPATCH(Exponentials)(s, &sum);
  return sum;
}

void TotalsOfMaps(const float* max, const float* sum, int64_t pages, int64_t stride, float* total_max, float* inverse) {
  HWY_DYNAMIC_DISPATCH(Totals)(max, sum, pages, stride, total_max, inverse);
}

void SharesOfPage(const float* max, const float* total_max, const float* inverse, int64_t count, float* share) {
  HWY_DYNAMIC_DISPATCH(Shares)(max, total_max, inverse, count, share);
}

float DifferenceOfPage(const PageMap& first, const PageMap& second, int begin, int end, float* d) {
  float weight = 0;
  HWY_DYNAMIC_DISPATCH(Difference)(&first, &second, begin, end, d, &weight);
  return weight;
}

}  // namespace tare
#endif
