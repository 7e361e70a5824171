// SPDX-License-Identifier: Apache-2.0
// See product_stage.h. stages.cc compiles this file, once for each instruction set.
#include "kernels/linear/product_stage.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/elementwise/rows.h"
#include "quant/algorithms/round_to_nearest.h"
#include "quant/base/integers.h"
#include "quant/base/message.h"
#include "quant/format/round.h"

#include "kernels/elementwise/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tare {
namespace HWY_NAMESPACE::product_stage {

constexpr int64_t kLanes = HWY_MAX_LANES_D(DF);
constexpr int64_t kColumns = 64;

float TokenCodes(const float* x, int64_t n, Format format, std::optional<float> clip, uint8_t* codes, int64_t padded) {
  const float absmax = AbsMaxRow(x, static_cast<size_t>(n));
  if (std::isinf(absmax)) return std::numeric_limits<float>::quiet_NaN();
  const Scale scale = ScaleFor(clip.value_or(absmax), format);
  const DF d;
  const hn::Repartition<uint16_t, DF> d16;
  const hn::Repartition<uint8_t, DF> d8;
  // Only a static scale has values beyond its clip; clamping before rounding gives the same codes as after.
  const auto inv = hn::Set(d, scale.inv), magic = hn::Set(d, kToNearest + 128.0f);
  const auto largest = hn::Set(d, static_cast<float>(Info(format).max_code)), smallest = hn::Neg(largest);
  const auto code = [&](auto value) HWY_ATTR {
    return hn::BitCast(DU(), hn::Add(hn::Clamp(hn::Mul(value, inv), smallest, largest), magic));
  };
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    const auto at = [&](int64_t j) HWY_ATTR { return code(hn::LoadU(d, x + i + j * kLanes)); };
    hn::StoreU(hn::OrderedTruncate2To(d8, hn::OrderedTruncate2To(d16, at(0), at(1)),
                                      hn::OrderedTruncate2To(d16, at(2), at(3))),
               d8, codes + i);
  }
  for (; i < n; ++i) {
    const auto one = code(hn::Set(d, x[i]));
    codes[i] = static_cast<uint8_t>(hn::GetLane(one));
  }
  std::fill(codes + n, codes + padded, uint8_t{128});
  return scale.scale;
}

template <bool kOffsets, bool kSteps>
HWY_INLINE void AddTo(const int32_t* sums, const GroupWeights& w, const PartInputs& x, int64_t rows, bool first,
                      float* total) {
  const DF d;
  const DI di;
  for (int64_t n = 0; n < kColumns; n += kLanes) {
    const auto raised = hn::ShiftLeft<7>(hn::LoadU(di, w.code_sums + n));
    const auto scale = hn::LoadU(d, w.scales + n);
    const auto offset = kOffsets ? hn::LoadU(d, w.offsets + n) : hn::Zero(d);
    for (int64_t r = 0, i = n; r < rows; ++r, i += kColumns) {
      const auto sum = hn::ConvertTo(d, hn::Sub(hn::Load(di, sums + i), raised));
      const auto by = kSteps ? hn::Mul(scale, hn::Set(d, x.steps[r * x.step_stride])) : scale;
      auto value = first ? hn::Mul(sum, by) : hn::MulAdd(sum, by, hn::Load(d, total + i));
      if constexpr (kOffsets) value = hn::MulAdd(hn::Set(d, x.sums[r * x.stride]), offset, value);
      hn::Store(value, d, total + i);
    }
  }
}

void Group(const int32_t* sums, const GroupWeights& w, const PartInputs& x, int64_t rows, bool first, float* total) {
  if (w.offsets == nullptr && x.steps == nullptr) return AddTo<false, false>(sums, w, x, rows, first, total);
  if (w.offsets == nullptr) return AddTo<false, true>(sums, w, x, rows, first, total);
  if (x.steps == nullptr) return AddTo<true, false>(sums, w, x, rows, first, total);
  AddTo<true, true>(sums, w, x, rows, first, total);
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

}  // namespace HWY_NAMESPACE::product_stage
}  // namespace tare
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tare {

float ToTokenCodes(const float* x, int64_t n, Format format, std::optional<float> clip, uint8_t* codes,
                   int64_t padded) {
  return TARE_CHOSEN(product_stage::TokenCodes)(x, n, format, clip, codes, padded);
}

float ToBlockCodes(const float* x, int64_t n, const Format& format, float tensor_absmax, uint8_t* codes, int64_t padded,
                   float* steps) {
  const int64_t block = Info(format).block;
  const float step_of_grid = AsStepCodes(format)->step;
  float values[32];  // of the largest block
  TARE_CHECK(block <= 32);
  for (int64_t begin = 0; begin < n; begin += block) {
    const auto count = static_cast<size_t>(std::min(block, n - begin));
    const float absmax = AbsMax(x + begin, count);
    if (std::isinf(absmax)) return std::numeric_limits<float>::quiet_NaN();
    const float end = BlockEnd(x + begin, static_cast<int64_t>(count), format, absmax, tensor_absmax);
    const Scale scale = ScaleFor(end, format, tensor_absmax);
    const float step = scale.inv < 0 ? kSevenths[8] : step_of_grid;
    std::copy_n(x + begin, count, values);
    FakeQuantize(values, count, Scale{scale.inv, 1 / step}, format);
    for (size_t i = 0; i < count; ++i) *codes++ = static_cast<uint8_t>(NearestInteger(values[i]) + 128);
    *steps++ = scale.scale * step;
  }
  std::fill_n(codes, padded - n, uint8_t{128});
  return 1;
}

void AddGroup(const int32_t* sums, const GroupWeights& weights, const PartInputs& x, int64_t rows, GroupOrder order,
              float* total) {
  TARE_CHOSEN(product_stage::Group)(sums, weights, x, rows, order == GroupOrder::kFirst, total);
}

void FinishTile(const float* total, const float* x_scales, const float* bias, int64_t rows, int64_t columns, float* y,
                int64_t y_stride) {
  TARE_CHOSEN(product_stage::Finish)(total, x_scales, bias, rows, columns, y, y_stride);
}

}  // namespace tare
#endif
