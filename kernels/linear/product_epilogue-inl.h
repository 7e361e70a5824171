// SPDX-License-Identifier: Apache-2.0
// stages.cc compiles this file, once for each instruction set.
#include "kernels/linear/product_epilogue.h"

#include <algorithm>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tare {
namespace HWY_NAMESPACE::product_epilogue {
namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::CappedTag<float, 16>;
using DI = hn::RebindToSigned<DF>;
constexpr int64_t kLanes = HWY_MAX_LANES_D(DF);
constexpr int64_t kColumns = 64;

template <bool kOffsets>
HWY_INLINE void AddTo(const int32_t* sums, const GroupWeights& w, const InputSums& x, int64_t rows, bool first,
                      float* total) {
  const DF d;
  const DI di;
  for (int64_t n = 0; n < kColumns; n += kLanes) {
    const auto raised = hn::ShiftLeft<7>(hn::LoadU(di, w.code_sums + n));
    const auto scale = hn::LoadU(d, w.scales + n);
    const auto offset = kOffsets ? hn::LoadU(d, w.offsets + n) : hn::Zero(d);
    for (int64_t r = 0, i = n; r < rows; ++r, i += kColumns) {
      const auto sum = hn::ConvertTo(d, hn::Sub(hn::Load(di, sums + i), raised));
      auto value = first ? hn::Mul(sum, scale) : hn::MulAdd(sum, scale, hn::Load(d, total + i));
      if constexpr (kOffsets) value = hn::MulAdd(hn::Set(d, x.sums[r * x.stride]), offset, value);
      hn::Store(value, d, total + i);
    }
  }
}

void Group(const int32_t* sums, const GroupWeights& w, const InputSums& x, int64_t rows, bool first, float* total) {
  if (w.offsets == nullptr) return AddTo<false>(sums, w, x, rows, first, total);
  AddTo<true>(sums, w, x, rows, first, total);
}

void Finish(const float* total, const float* x_scales, const float* bias, int64_t rows, int64_t columns, float* y,
            int64_t y_stride) {
  const DF d;
  for (int64_t n = 0; n < columns; n += kLanes) {
    const auto count = static_cast<size_t>(std::min(kLanes, columns - n));
    const auto plus = bias == nullptr ? hn::Zero(d) : hn::LoadN(d, bias + n, count);
    for (int64_t r = 0; r < rows; ++r) {
      const auto value = hn::MulAdd(hn::Load(d, total + r * kColumns + n), hn::Set(d, x_scales[r]), plus);
      if (count == static_cast<size_t>(kLanes)) {
        hn::StoreU(value, d, y + r * y_stride + n);
      } else {
        hn::StoreN(value, d, y + r * y_stride + n, count);
      }
    }
  }
}

}  // namespace HWY_NAMESPACE::product_epilogue
}  // namespace tare
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tare {

HWY_EXPORT_T(Group, product_epilogue::Group);
HWY_EXPORT_T(Finish, product_epilogue::Finish);

void AddGroup(const int32_t* sums, const GroupWeights& weights, const InputSums& x_sums, int64_t rows, GroupOrder order,
              float* total) {
  HWY_DYNAMIC_DISPATCH(Group)(sums, weights, x_sums, rows, order == GroupOrder::kFirst, total);
}

void FinishTile(const float* total, const float* x_scales, const float* bias, int64_t rows, int64_t columns, float* y,
                int64_t y_stride) {
  HWY_DYNAMIC_DISPATCH(Finish)(total, x_scales, bias, rows, columns, y, y_stride);
}

}  // namespace tare
#endif
