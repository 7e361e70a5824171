// SPDX-License-Identifier: Apache-2.0
// RowProduct of projector.h. stages.cc compiles this file, once for each instruction set.
#include "kernels/linear/projector.h"

#include <algorithm>

#include "kernels/product/read_ahead.h"
#include "quant/base/float16.h"
#include "quant/base/parallel.h"

#include "kernels/elementwise/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tare {
namespace HWY_NAMESPACE::row_product {

constexpr int kSums = 4;  // hide the latency of an addition

HWY_INLINE V Load(const float* w, int64_t i) { return hn::LoadU(D(), w + i); }
template <class T>
HWY_INLINE V Load(const T* w, int64_t i) {
  return hn::PromoteTo(D(), hn::LoadU(hn::Rebind<T, D>(), w + i));
}

// What is done to a value that was read.
struct Same {
  static HWY_INLINE V Of(V v) { return v; }
  static float Of(float v) { return v; }
};
// The nearest bf16 of finite values, ties to even: as Bf16FromFloat (quant/base/float16.h).
struct AsBf16 {
  static HWY_INLINE V Of(V v) {
    const hn::RebindToUnsigned<D> du;
    const auto bits = hn::BitCast(du, v), odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
    const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fffu)));
    return hn::BitCast(D(), hn::And(rounded, hn::Set(du, 0xffff0000u)));
  }
  static float Of(float v) { return FloatFromBf16(Bf16FromFloat(v)); }
};

template <class Round, class T>
float Dot(const T* w, const float* x, int64_t in, ReadHint hint) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  V sums[kSums] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
  int64_t i = 0;
  for (; i + kSums * lanes <= in; i += kSums * lanes) {
    AskForWeights(w + i, kSums * lanes * static_cast<int64_t>(sizeof(T)), hint);
    for (int s = 0; s < kSums; ++s)
      sums[s] = hn::MulAdd(Round::Of(Load(w, i + s * lanes)), hn::LoadU(d, x + i + s * lanes), sums[s]);
  }
  float sum = hn::ReduceSum(d, hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3])));
  for (; i < in; ++i) sum += Round::Of(hwy::ConvertScalarTo<float>(w[i])) * x[i];
  return sum;
}

template <class Round>
void DotsOf(const DenseMatrix* weight, int64_t begin, int64_t end, const float* x, float* y) {
  const ReadHint hint = BestReadHint();
  for (int64_t n = begin; n < end; ++n) {
    const int64_t at = n * weight->in;
    if (weight->type == WeightType::kF32) {
      y[n] = Dot<Round>(static_cast<const float*>(weight->data) + at, x, weight->in, hint);
    } else if (weight->type == WeightType::kBf16) {
      y[n] = Dot<Round>(static_cast<const hwy::bfloat16_t*>(weight->data) + at, x, weight->in, hint);
    } else {
      y[n] = Dot<Round>(static_cast<const hwy::float16_t*>(weight->data) + at, x, weight->in, hint);
    }
  }
}

void Dots(const DenseMatrix* weight, Math math, int64_t begin, int64_t end, const float* x, float* y) {
  const bool as_they_are = math == Math::kF32 || weight->type == WeightType::kBf16;
  return as_they_are ? DotsOf<Same>(weight, begin, end, x, y) : DotsOf<AsBf16>(weight, begin, end, x, y);
}

}  // namespace HWY_NAMESPACE::row_product
}  // namespace tare
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tare {

void CheckWeight(const char* where, const DenseMatrix& weight, const float* y) {
  constexpr int64_t kMost = int64_t{1} << 40;
  CheckRange(where, "outputs", weight.out, 0, kMost);
  CheckRange(where, "inputs", weight.in, 0, kMost / std::max<int64_t>(1, weight.out));
  CheckPointer(where, weight.data, weight.out * weight.in);
  CheckPointer(where, y, weight.out);
}

void RowProduct(const DenseMatrix& weight, Math math, const float* x, const float* bias, float* y) {
  constexpr int64_t kOutputs = 64;  // of a unit of work
  CheckWeight("row product", weight, y);
  CheckPointer("row product, x", x, weight.in);
  ParallelForBlocks(weight.out, kOutputs, [&](int64_t begin, int64_t count) {
    const int64_t end = begin + count;
    TARE_CHOSEN(row_product::Dots)(&weight, math, begin, end, x, y);
    for (int64_t n = begin; n < end && bias != nullptr; ++n) y[n] += bias[n];
  });
}

}  // namespace tare
#endif
