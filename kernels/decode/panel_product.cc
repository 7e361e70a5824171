// SPDX-License-Identifier: Apache-2.0
// See panel_product.h. A vector's share of a record is loaded for all four (on AVX-512) vectors of lanes; two factors
// with two planes keep 16 sums in registers.
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
// Ahead of what is being multiplied. 25 GB/s for 120 ns is 3 KB, but nothing is asked for while a softmax is computed.
// Measured: 4 KB 14.0 ns per key and head (int4, V1, d 128), 8 KB 10.5, 12 KB 9.9, 16 KB 9.7.
constexpr ptrdiff_t kAhead = 16384;

HWY_INLINE void Fetch(const uint8_t* w, int64_t bytes, const ReadAhead& ahead) {
  for (int64_t line = 0; line < bytes; line += 64) {
    const uint8_t* next = w + kAhead + line;
    next += next >= reinterpret_cast<const uint8_t*>(ahead.end) ? ahead.jump : 0;
    __builtin_prefetch(next, 0, 0);  // read once: past the second-level cache
  }
}

template <class Bits, int kFactors>
HWY_INLINE void Codes(const uint8_t* w, int64_t inputs, const PanelFactor* f, int64_t lane, const ReadAhead& ahead) {
  const DI di;
  const DF d;
  VI high[kFactors][kVectors], low[kFactors][kVectors];
  for (int i = 0; i < kFactors; ++i) {
    for (int v = 0; v < kVectors; ++v) {
      high[i][v] = hn::Set(di, -Bits::kOffset * f[i].high_sum);
      low[i][v] = hn::Set(di, -Bits::kOffset * f[i].low_sum);
    }
  }
  for (int64_t r = 0; r < inputs; r += 4 * Bits::kGroups, w += Bits::kRecordBytes) {
    if (lane == 0) Fetch(w, Bits::kRecordBytes, ahead);
    for (int v = 0; v < kVectors; ++v) {
      hn::Vec<D8> codes[Bits::kGroups];
      Bits::Unpack(D8(), w + 4 * lane + v * kBytes, codes);
      for (int g = 0; g < Bits::kGroups; ++g) {
        for (int i = 0; i < kFactors; ++i)
          FourInputs<DI>(f[i].high + r + 4 * g, f[i].low + r + 4 * g).Accumulate(codes[g], high[i][v], low[i][v]);
      }
    }
  }
  for (int i = 0; i < kFactors; ++i) {
    for (int v = 0; v < kVectors; ++v) {
      float* y = f[i].y + lane + v * kLanes;
      const VF sum = hn::Add(hn::Mul(hn::ConvertTo(d, high[i][v]), hn::Set(d, 128.0f)), hn::ConvertTo(d, low[i][v]));
      VF scale = hn::Set(d, f[i].scale);
      if (f[i].lane_scales != nullptr) scale = hn::Mul(scale, hn::Load(d, f[i].lane_scales + lane + v * kLanes));
      hn::Store(hn::Add(hn::Load(d, y), hn::Mul(sum, scale)), d, y);
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

template <class Record, int kFactors>
HWY_INLINE void Floats(const uint8_t* w, int64_t inputs, const PanelFactor* f, int64_t lane, const ReadAhead& ahead) {
  const DF d;
  VF sum[kFactors][kVectors];
  for (int i = 0; i < kFactors; ++i) {
    for (int v = 0; v < kVectors; ++v) sum[i][v] = hn::Load(d, f[i].y + lane + v * kLanes);
  }
  for (int64_t r = 0; r < inputs; r += Record::kInputs, w += kPanelGroupBytes) {
    if (lane == 0) Fetch(w, kPanelGroupBytes, ahead);
    for (int v = 0; v < kVectors; ++v) {
      for (int i = 0; i < kFactors; ++i) Record::Step(w + 4 * lane + v * kBytes, f[i].x + r, sum[i][v]);
    }
  }
  for (int i = 0; i < kFactors; ++i) {
    for (int v = 0; v < kVectors; ++v) hn::Store(sum[i][v], d, f[i].y + lane + v * kLanes);
  }
}

template <int kFactors>
void Product(Format format, const uint8_t* w, int64_t inputs, const PanelFactor* f, const ReadAhead& ahead) {
  for (int64_t lane = 0; lane < kPanelLanes; lane += kVectors * kLanes) {
    switch (format) {
      case Format::kF32:
        Floats<OneFloat, kFactors>(w, inputs, f, lane, ahead);
        break;
      case Format::kBf16:
        Floats<TwoBf16, kFactors>(w, inputs, f, lane, ahead);
        break;
      case Format::kInt8:
        Codes<EightBits, kFactors>(w, inputs, f, lane, ahead);
        break;
      case Format::kInt6:
        Codes<SixBits, kFactors>(w, inputs, f, lane, ahead);
        break;
      case Format::kInt4:
        Codes<FourBits, kFactors>(w, inputs, f, lane, ahead);
        break;
      default:
        TARE_CHECK(false);
    }
  }
}

void OneProduct(Format format, const uint8_t* w, int64_t inputs, const PanelFactor* f, const ReadAhead& ahead) {
  Product<1>(format, w, inputs, f, ahead);
}
void TwoProducts(Format format, const uint8_t* w, int64_t inputs, const PanelFactor* f, const ReadAhead& ahead) {
  Product<2>(format, w, inputs, f, ahead);
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

HWY_EXPORT(OneProduct);
HWY_EXPORT(TwoProducts);
HWY_EXPORT(Planes);

void ToPlanes(const float* x, const float* weights, int64_t count, int8_t* high, int8_t* low, PanelFactor& factor) {
  TARE_CHECK(count % 16 == 0);
  factor.high = high;
  factor.low = low;
  HWY_DYNAMIC_DISPATCH(Planes)(x, weights, count, high, low, &factor);
}

void PanelProduct(Format format, const std::byte* panel, int64_t inputs, std::span<const PanelFactor> factors,
                  const ReadAhead& ahead) {
  TARE_CHECK(inputs % 16 == 0 && (factors.size() == 1 || factors.size() == 2));
  const auto* codes = reinterpret_cast<const uint8_t*>(panel);
  if (factors.size() == 1) return HWY_DYNAMIC_DISPATCH(OneProduct)(format, codes, inputs, factors.data(), ahead);
  HWY_DYNAMIC_DISPATCH(TwoProducts)(format, codes, inputs, factors.data(), ahead);
}

}  // namespace tare
#endif
