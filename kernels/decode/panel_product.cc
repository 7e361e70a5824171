// SPDX-License-Identifier: Apache-2.0
// See panel_product.h. A vector's share of a record is loaded for all four (on AVX-512) vectors of lanes; four planes
// keep 16 sums in registers.
#include "kernels/decode/panel_product.h"

#include <algorithm>

#include "kernels/elementwise/to_nearest.h"
#include "quant/base/error.h"
#include "quant/format/round.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/decode/panel_product.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/linear/panel_codes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tare {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::CappedTag<float, 16>;
using DI = hn::RebindToSigned<DF>;
using DU = hn::RebindToUnsigned<DF>;
using D8 = hn::Repartition<uint8_t, DF>;
using DS8Quarter = hn::Rebind<int8_t, DI>;
using VF = hn::Vec<DF>;
using VI = hn::Vec<DI>;
constexpr int64_t kLanes = HWY_MAX_LANES_D(DF);
constexpr int64_t kBytes = 4 * kLanes;
constexpr int kVectors = 4;  // of lanes at once

HWY_INLINE void Fetch(const uint8_t* w, int64_t bytes, ReadHint hint) {
  if (hint == ReadHint::kNone) return;
  for (int64_t line = 0; line < bytes; line += 64) {
    const uint8_t* next = w + kReadAhead + line;
    if (hint == ReadHint::kOnce) {
      __builtin_prefetch(next, 0, 0);
    } else {
      __builtin_prefetch(next, 0, 3);
    }
  }
}

template <class Bits, int kCount>
HWY_INLINE void Codes(const uint8_t* w, int64_t inputs, const PanelVector* x, int64_t lane, ReadHint hint) {
  const DI di;
  const DF d;
  VI sum[kCount][kVectors];
  for (int i = 0; i < kCount; ++i) {
    for (int v = 0; v < kVectors; ++v) sum[i][v] = hn::Set(di, -Bits::kOffset * x[i].sum);
  }
  for (int64_t r = 0; r < inputs; r += 4 * Bits::kGroups, w += Bits::kRecordBytes) {
    if (lane == 0) Fetch(w, Bits::kRecordBytes, hint);
    for (int v = 0; v < kVectors; ++v) {
      hn::Vec<D8> codes[Bits::kGroups];
      Bits::Unpack(D8(), w + 4 * lane + v * kBytes, codes);
      for (int g = 0; g < Bits::kGroups; ++g) {
        for (int i = 0; i < kCount; ++i)
          sum[i][v] =
              hn::SumOfMulQuadAccumulate(di, codes[g], FourInputs<DI>::Broadcast(x[i].codes + r + 4 * g), sum[i][v]);
      }
    }
  }
  for (int i = 0; i < kCount; ++i) {
    for (int v = 0; v < kVectors; ++v) {
      float* y = x[i].y + lane + v * kLanes;
      VF scale = hn::Set(d, x[i].scale);
      if (x[i].lane_scales != nullptr) scale = hn::Mul(scale, hn::Load(d, x[i].lane_scales + lane + v * kLanes));
      hn::Store(hn::Add(hn::Load(d, y), hn::Mul(hn::ConvertTo(d, sum[i][v]), scale)), d, y);
    }
  }
}

// One input of f32 per record, or two of bf16.
struct OneFloat {
  static constexpr int kInputs = 1;
  static HWY_INLINE void Step(const uint8_t* w, const float* x, VF& sum) {
    const DF d;
    sum = hn::MulAdd(hn::Load(d, reinterpret_cast<const float*>(w)), hn::Set(d, x[0]), sum);
  }
};
struct TwoBf16 {
  static constexpr int kInputs = 2;
  static HWY_INLINE void Step(const uint8_t* w, const float* x, VF& sum) {
    const DF d;
    const auto both = hn::Load(DU(), reinterpret_cast<const uint32_t*>(w));
    sum = hn::MulAdd(hn::BitCast(d, hn::ShiftLeft<16>(both)), hn::Set(d, x[0]), sum);
    sum = hn::MulAdd(hn::BitCast(d, hn::And(both, hn::Set(DU(), 0xffff0000u))), hn::Set(d, x[1]), sum);
  }
};

template <class Record, int kCount>
HWY_INLINE void Floats(const uint8_t* w, int64_t inputs, const PanelVector* x, int64_t lane, ReadHint hint) {
  const DF d;
  VF sum[kCount][kVectors];
  for (int i = 0; i < kCount; ++i) {
    for (int v = 0; v < kVectors; ++v) sum[i][v] = hn::Load(d, x[i].y + lane + v * kLanes);
  }
  for (int64_t r = 0; r < inputs; r += Record::kInputs, w += kPanelGroupBytes) {
    if (lane == 0) Fetch(w, kPanelGroupBytes, hint);
    for (int v = 0; v < kVectors; ++v) {
      for (int i = 0; i < kCount; ++i) Record::Step(w + 4 * lane + v * kBytes, x[i].x + r, sum[i][v]);
    }
  }
  for (int i = 0; i < kCount; ++i) {
    for (int v = 0; v < kVectors; ++v) hn::Store(sum[i][v], d, x[i].y + lane + v * kLanes);
  }
}

template <int kCount>
HWY_INLINE void Product(Format format, const uint8_t* w, int64_t inputs, const PanelVector* x, ReadHint hint) {
  for (int64_t lane = 0; lane < kPanelLanes; lane += kVectors * kLanes) {
    switch (format) {
      case Format::kF32:
        Floats<OneFloat, kCount>(w, inputs, x, lane, hint);
        break;
      case Format::kBf16:
        Floats<TwoBf16, kCount>(w, inputs, x, lane, hint);
        break;
      case Format::kInt8:
        Codes<EightBits, kCount>(w, inputs, x, lane, hint);
        break;
      case Format::kInt6:
        Codes<SixBits, kCount>(w, inputs, x, lane, hint);
        break;
      case Format::kInt4:
        Codes<FourBits, kCount>(w, inputs, x, lane, hint);
        break;
      default:
        TARE_CHECK(false);
    }
  }
}

void Products(Format format, const uint8_t* w, int64_t inputs, const PanelVector* x, int count, ReadHint hint) {
  if (count == 4) return Product<4>(format, w, inputs, x, hint);
  if (count >= 2) Product<2>(format, w, inputs, x, hint);
  if (count % 2 == 1) Product<1>(format, w, inputs, x + count - 1, hint);
}

HWY_INLINE VF Weighted(const float* x, const float* weights, int64_t i) {
  const DF d;
  const VF values = hn::Load(d, x + i);
  return weights == nullptr ? values : hn::Mul(values, hn::Load(d, weights + i));
}

void Planes(const float* x, const float* weights, int64_t count, int8_t* high, int8_t* low, PanelFactor* factor) {
  const DF d;
  const DI di;
  VF largest = hn::Zero(d);
  for (int64_t i = 0; i < count; i += kLanes) largest = hn::Max(largest, hn::Abs(Weighted(x, weights, i)));
  const float absmax = hn::ReduceMax(d, largest);
  const bool zero = absmax < kSmallestAbsmax;
  const VF inv = hn::Set(d, zero ? 0.0f : static_cast<float>(kLargestPlaneCode) / absmax);
  VI high_sum = hn::Zero(di), low_sum = high_sum;
  for (int64_t i = 0; i < count; i += kLanes) {
    const VF moved = hn::Add(hn::Mul(Weighted(x, weights, i), inv), hn::Set(d, kToNearest));
    const VI code = hn::Sub(hn::BitCast(di, moved), hn::Set(di, static_cast<int32_t>(kToNearestBits)));
    const VI h = hn::ShiftRight<7>(hn::Add(code, hn::Set(di, 64))), l = hn::Sub(code, hn::ShiftLeft<7>(h));
    hn::Store(hn::DemoteTo(DS8Quarter(), h), DS8Quarter(), high + i);
    hn::Store(hn::DemoteTo(DS8Quarter(), l), DS8Quarter(), low + i);
    high_sum = hn::Add(high_sum, h);
    low_sum = hn::Add(low_sum, l);
  }
  factor->scale = zero ? 0.0f : absmax / static_cast<float>(kLargestPlaneCode);
  factor->high_sum = hn::ReduceSum(di, high_sum);
  factor->low_sum = hn::ReduceSum(di, low_sum);
}

}  // namespace HWY_NAMESPACE
}  // namespace tare
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tare {

HWY_EXPORT(Products);
HWY_EXPORT(Planes);

void ToPlanes(const float* x, const float* weights, int64_t count, int8_t* high, int8_t* low, PanelFactor& factor) {
  TARE_CHECK(count % 16 == 0);
  factor.high = high;
  factor.low = low;
  HWY_DYNAMIC_DISPATCH(Planes)(x, weights, count, high, low, &factor);
}

void PanelProduct(Format format, const std::byte* panel, int64_t inputs, std::span<const PanelFactor> factors,
                  ReadHint hint) {
  TARE_CHECK(inputs % 16 == 0);
  constexpr int kMost = 4;
  PanelVector x[kMost];
  int count = 0;
  const auto flush = [&] {
    if (count > 0)
      HWY_DYNAMIC_DISPATCH(Products)(format, reinterpret_cast<const uint8_t*>(panel), inputs, x, count, hint);
    count = 0;
  };
  const auto add = [&](const PanelFactor& f, const int8_t* codes, int32_t sum, float scale) {
    if (count == kMost) flush();
    x[count++] = {.x = f.x, .codes = codes, .sum = sum, .scale = scale, .lane_scales = f.lane_scales, .y = f.y};
  };
  for (const PanelFactor& f : factors) {
    add(f, f.high, f.high_sum, 128 * f.scale);
    if (HasCodes(format)) add(f, f.low, f.low_sum, f.scale);
  }
  flush();
}

}  // namespace tare
#endif
