// SPDX-License-Identifier: Apache-2.0
// See panel_product.h. A vector's share of a record is loaded for all four (on AVX-512) vectors of lanes; two planes of
// two vectors keep 16 sums in registers.
// stages.cc compiles this file, once for each instruction set.
#include "kernels/decode/panel_product.h"

#include "quant/base/integers.h"
#include "quant/base/message.h"
#include "quant/format/round.h"

#include "hwy/highway.h"
#include "kernels/elementwise/lanes-inl.h"
#include "kernels/linear/panel_codes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tare {
namespace HWY_NAMESPACE::panel_product {

using D8 = hn::Repartition<uint8_t, DF>;
using DS8Quarter = hn::Rebind<int8_t, DI>;
constexpr int64_t kLanes = HWY_MAX_LANES_D(DF);
constexpr int64_t kBytes = 4 * kLanes;
constexpr int kVectors = 4;                                                                    // of lanes at once
constexpr int kVectorsOfHalf = kVectors * kLanes > kPanelLanes / 2 ? kVectors / 2 : kVectors;  // likewise, of 32 lanes

HWY_INLINE void Fetch(const uint8_t* w, int64_t bytes, ReadHint hint) {
  if (hint == ReadHint::kNone) return;
  const auto at = reinterpret_cast<uintptr_t>(w);
  for (uintptr_t line = 0; line < static_cast<uintptr_t>(bytes) / 64; ++line) {
    if (hint == ReadHint::kOnce) {
      __builtin_prefetch(w + kReadAhead + 64 * line, 0, 0);
    } else {
      __builtin_prefetch(reinterpret_cast<const void*>(LineAhead(at, line)), 0, 3);
    }
  }
}

// Adds the sums of both planes to lanes from `at` on, by their scales and centres.
template <int kMiddle>
HWY_INLINE void AddSums(const PanelFactor& x, int64_t at, VI high, VI low) {
  const DF d;
  VF scale = hn::Set(d, x.scale), high_scale = hn::Set(d, 128 * x.scale), centres = hn::Set(d, x.beside);
  if (x.lane_scales != nullptr) {
    const VF of_lanes = hn::Load(d, x.lane_scales + at);
    scale = hn::Mul(scale, of_lanes), high_scale = hn::Mul(high_scale, of_lanes);
    if (x.lane_minima != nullptr) {
      const VF centre =
          hn::Add(hn::Load(d, x.lane_minima + at), hn::Mul(of_lanes, hn::Set(d, static_cast<float>(kMiddle))));
      centres = hn::Add(centres, hn::Mul(centre, hn::Set(d, x.sum)));
    }
  }
  VF sum = hn::Add(hn::Load(d, x.y + at), hn::Mul(hn::ConvertTo(d, high), high_scale));
  sum = hn::Add(sum, hn::Mul(hn::ConvertTo(d, low), scale));
  hn::Store(hn::Add(sum, centres), d, x.y + at);
}

// Adds a panel's products with kCount vectors, in two planes, to y [64] of each from offset `first`, kAtOnce vectors of
// lanes at once.
template <class Bits, int kCount, int kAtOnce>
HWY_INLINE void Codes(const uint8_t* w, const Panels& p, const PanelFactor* x, int64_t first, ReadHint hint) {
  const DI di;
  for (int64_t lane = p.begin; lane < p.end; lane += kAtOnce * kLanes) {
    VI high[kCount][kAtOnce], low[kCount][kAtOnce];
    for (int i = 0; i < kCount; ++i) {
      for (int v = 0; v < kAtOnce; ++v) {
        high[i][v] = hn::Set(di, -Bits::kRaisedBy * x[i].high_sum);
        low[i][v] = hn::Set(di, -Bits::kRaisedBy * x[i].low_sum);
      }
    }
    const uint8_t* record = w;
    for (int64_t r = 0; r < p.inputs; r += 4 * Bits::kGroups, record += Bits::kRecordBytes) {
      if (lane == 0) Fetch(record, Bits::kRecordBytes, hint);
      for (int v = 0; v < kAtOnce; ++v) {
        hn::Vec<D8> codes[Bits::kGroups];
        Bits::Unpack(D8(), record, 4 * lane + v * kBytes, codes);
        for (int g = 0; g < Bits::kGroups; ++g) {
          for (int i = 0; i < kCount; ++i)
            FourInputs(x[i].high + r + 4 * g, x[i].low + r + 4 * g).Accumulate<Bits>(codes[g], high[i][v], low[i][v]);
        }
      }
    }
    for (int i = 0; i < kCount; ++i) {
      for (int v = 0; v < kAtOnce; ++v) AddSums<Bits::kOffset>(x[i], first + lane + v * kLanes, high[i][v], low[i][v]);
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
HWY_INLINE void Floats(const uint8_t* w, int64_t inputs, const PanelFactor* x, int64_t first, ReadHint hint) {
  const DF d;
  for (int64_t lane = 0; lane < kPanelLanes; lane += kVectors * kLanes) {
    VF sum[kCount][kVectors];
    for (int i = 0; i < kCount; ++i) {
      for (int v = 0; v < kVectors; ++v) sum[i][v] = hn::Load(d, x[i].y + first + lane + v * kLanes);
    }
    const uint8_t* record = w;
    for (int64_t r = 0; r < inputs; r += Record::kInputs, record += kPanelGroupBytes) {
      if (lane == 0) Fetch(record, kPanelGroupBytes, hint);
      for (int v = 0; v < kVectors; ++v) {
        for (int i = 0; i < kCount; ++i) Record::Step(record + 4 * lane + v * kBytes, x[i].x + r, sum[i][v]);
      }
    }
    for (int i = 0; i < kCount; ++i) {
      for (int v = 0; v < kVectors; ++v) hn::Store(sum[i][v], d, x[i].y + first + lane + v * kLanes);
    }
  }
}

template <class Bits, int kAtOnce>
void RunsOfCodes(const Panels& p, const PanelFactor* x, int64_t count, ReadHint hint) {
  const auto* w = reinterpret_cast<const uint8_t*>(p.first);
  for (int64_t n = 0; n < p.count; ++n, w += p.bytes) {
    int64_t i = 0;
    for (; i + 2 <= count; i += 2) Codes<Bits, 2, kAtOnce>(w, p, x + i, n * kPanelLanes, hint);
    if (i < count) Codes<Bits, 1, kAtOnce>(w, p, x + i, n * kPanelLanes, hint);
  }
  Fetch(w - p.bytes + PanelBytes(p.format, p.inputs), p.behind, hint);
}

template <class Bits>
void CodePanels(const Panels& p, const PanelFactor* x, int64_t count, ReadHint hint) {
  if (p.end - p.begin == kPanelLanes) return RunsOfCodes<Bits, kVectors>(p, x, count, hint);
  RunsOfCodes<Bits, kVectorsOfHalf>(p, x, count, hint);
}

template <class Record>
void FloatPanels(const Panels& p, const PanelFactor* x, int64_t count, ReadHint hint) {
  const auto* w = reinterpret_cast<const uint8_t*>(p.first);
  for (int64_t n = 0; n < p.count; ++n, w += p.bytes) {
    int64_t i = 0;
    for (; i + 4 <= count; i += 4) Floats<Record, 4>(w, p.inputs, x + i, n * kPanelLanes, hint);
    for (; i + 2 <= count; i += 2) Floats<Record, 2>(w, p.inputs, x + i, n * kPanelLanes, hint);
    if (i < count) Floats<Record, 1>(w, p.inputs, x + i, n * kPanelLanes, hint);
  }
}

void Products(const Panels* p, const PanelFactor* x, int64_t count, ReadHint hint) {
  const auto of_codes = [&](auto bits) HWY_ATTR { CodePanels<decltype(bits)>(*p, x, count, hint); };
  switch (p->format.base) {
    case Format::kF32:
      return FloatPanels<OneFloat>(*p, x, count, hint);
    case Format::kBf16:
      return FloatPanels<TwoBf16>(*p, x, count, hint);
    case Format::kInt8:
      return WithFactor<EightBits>(of_codes);
    case Format::kInt6:
      return WithFactor<SixBits>(of_codes);
    case Format::kInt4:
      return WithFactor<FourBits>(of_codes);
    case Format::kInt3:
      return WithFactor<ThreeBits>(of_codes);
    case Format::kInt2:
      return WithFactor<TwoBits>(of_codes);
    default:
      TARE_CHECK(false);
  }
}

HWY_INLINE VF Weighted(const float* x, const float* weights, int64_t i) {
  const DF d;
  const VF values = hn::Load(d, x + i);
  return weights == nullptr ? values : hn::Mul(values, hn::Load(d, weights + i));
}

// The sum of terms, each call giving those of inputs i .. i + lanes: in 16 parts, input i in part i % 16.
template <class Terms>
HWY_INLINE float SumInParts(int64_t count, Terms terms) {
  const DF d;
  VF sums[16 / kLanes];
  for (VF& part : sums) part = hn::Zero(d);
  for (int64_t i = 0; i < count; i += 16) {
    for (int64_t j = 0; j < 16; j += kLanes) sums[j / kLanes] = hn::Add(sums[j / kLanes], terms(i + j));
  }
  return SumOfSixteen(d, sums);
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
  factor->sum = SumInParts(count, [&](int64_t i) HWY_ATTR { return Weighted(x, weights, i); });
}

float Centres(const float* x, const float* scales, const float* minima, float middle, int64_t count) {
  const DF d;
  return SumInParts(count, [&](int64_t i) HWY_ATTR {
    const VF centre = hn::Add(hn::Load(d, minima + i), hn::Mul(hn::Load(d, scales + i), hn::Set(d, middle)));
    return hn::Mul(hn::Load(d, x + i), centre);
  });
}

}  // namespace HWY_NAMESPACE::panel_product
}  // namespace tare
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tare {

HWY_EXPORT_T(Products, panel_product::Products);
HWY_EXPORT_T(Planes, panel_product::Planes);
HWY_EXPORT_T(Centres, panel_product::Centres);

void ToPlanes(const float* x, const float* weights, int64_t count, int8_t* high, int8_t* low, PanelFactor& factor) {
  TARE_CHECK(count % 16 == 0);
  factor.high = high;
  factor.low = low;
  HWY_DYNAMIC_DISPATCH(Planes)(x, weights, count, high, low, &factor);
}

float CentreSum(Format format, const float* x, const float* scales, const float* minima, int64_t count) {
  TARE_CHECK(count % 16 == 0);
  return HWY_DYNAMIC_DISPATCH(Centres)(x, scales, minima, static_cast<float>(MiddleOf(format)), count);
}

void PanelProduct(const Panels& panels, std::span<const PanelFactor> factors, ReadHint hint) {
  TARE_CHECK(panels.inputs % 16 == 0);
  const int lanes = panels.end - panels.begin;
  TARE_CHECK(lanes == kPanelLanes || (lanes == kPanelLanes / 2 && HasCodes(panels.format)));
  TARE_CHECK(panels.begin % lanes == 0 && panels.end <= kPanelLanes && panels.begin >= 0);
  HWY_DYNAMIC_DISPATCH(Products)(&panels, factors.data(), std::ssize(factors), hint);
}

}  // namespace tare
#endif
