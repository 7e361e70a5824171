// SPDX-License-Identifier: Apache-2.0
// See panel_product.h. A vector's share of a record is loaded for all four (on AVX-512) vectors of lanes; two planes of
// two vectors keep 16 sums in registers. stages.cc compiles this file, once for each instruction set.
#include "kernels/decode/panel_product.h"

#include <algorithm>
#include <numeric>
#include <type_traits>

#include "quant/base/integers.h"
#include "quant/base/message.h"
#include "quant/format/pack.h"
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
constexpr int kNearLines = 8;  // with more, or further on, decoding is slower
constexpr int kVectors = 4;    // of lanes at once
constexpr int kVectorsOfHalf = kVectors * kLanes > kPanelLanes / 2 ? kVectors / 2 : kVectors;  // likewise, of 32 lanes

HWY_INLINE void Fetch(const uint8_t* w, int64_t bytes, ReadHint hint) {
  if (hint == ReadHint::kNear) return;
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

// Codes that lie as Bits has them.
template <class Bits>
struct Integers {
  static constexpr int kMost = 2;
  static constexpr bool kInBlocks = false;  // whether a format with blocks has such codes
};

// Adds products of kCount vectors, in two planes, to y [64] of each from `first` on, kAtOnce vectors of lanes at once.
template <int kCount, int kAtOnce, int64_t kOfQuarter, class Bits>
HWY_INLINE void Multiply(Integers<Bits> /*of*/, const uint8_t* w, const Panels& p, const PanelFactor* x, int64_t first,
                         ReadHint hint) {
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

// Records of floats: a vector's lanes of the next kInputs inputs. Of codes, times kStep.
struct OneFloat {
  static constexpr int kMost = 4;
  static constexpr int kInputs = 1;
  static constexpr int64_t kBytes = kPanelGroupBytes;
  static constexpr bool kOfCodes = false, kInBlocks = false;
  HWY_INLINE void Load(const uint8_t* record, int64_t lane, VF* values) const {
    values[0] = hn::Load(DF(), reinterpret_cast<const float*>(record) + lane);
  }
};
struct TwoBf16 : OneFloat {
  static constexpr int kInputs = 2;
  HWY_INLINE void Load(const uint8_t* record, int64_t lane, VF* values) const {
    const DF d;
    const auto both = hn::Load(DU(), reinterpret_cast<const uint32_t*>(record) + lane);
    values[0] = hn::BitCast(d, hn::ShiftLeft<16>(both));
    values[1] = hn::BitCast(d, hn::And(both, hn::Set(DU(), 0xffff0000u)));
  }
};
// f16 has FP8's bits: E5M2 is its upper byte; E4M3's exponent bias is 8 less (the step makes up), subnormals alike.
template <int kMantissa>
struct OneFp8 {
  static constexpr int kMost = 4;
  static constexpr int kInputs = 1;
  static constexpr int64_t kBytes = kPanelLanes;
  static constexpr bool kOfCodes = true, kInBlocks = true;
  static constexpr float kStep = kMantissa == 3 ? 256 : 1;
  HWY_INLINE void Load(const uint8_t* record, int64_t lane, VF* values) const {
    const hn::Rebind<int16_t, DF> wide;
    const auto codes = hn::LoadU(DS8Quarter(), reinterpret_cast<const int8_t*>(record) + lane);
    const auto bits = hn::And(hn::ShiftLeft<10 - kMantissa>(hn::PromoteTo(wide, codes)),  // the sign twice in E4M3
                              hn::Set(wide, static_cast<int16_t>(kMantissa == 3 ? 0xbfff : 0xffff)));
    values[0] = hn::PromoteTo(DF(), hn::BitCast(hn::Rebind<hwy::float16_t, DF>(), bits));
  }
};
// Codes that lie as Bits has them, of at most 16 values.
template <class Bits>
struct OfList {
  static constexpr int kMost = 4;
  static constexpr int kInputs = 4 * Bits::kGroups;
  static constexpr int64_t kBytes = Bits::kRecordBytes;
  static constexpr bool kOfCodes = true, kInBlocks = std::is_same_v<Bits, FourBits>;
  static constexpr float kStep = 1;
  HWY_INLINE void Load(const uint8_t* record, int64_t lane, VF* values) const {
    const DI di;
    hn::Vec<D8> codes[Bits::kGroups];
    Bits::Unpack(D8(), record, 4 * lane, codes);
    for (int g = 0; g < Bits::kGroups; ++g) {
      const VI four = hn::BitCast(di, codes[g]);
      for (int r = 0; r < 4; ++r)
        values[4 * g + r] = Look(list, hn::And(hn::ShiftRightSame(four, 8 * r), hn::Set(di, 15)));
    }
  }

  const float* list;  // [16], aligned to 64 bytes
};

// Likewise in f32. kOfQuarter: floats from the factor of 16 lanes to that of the next; 0: all lanes have one.
template <int kCount, int kAtOnce, int64_t kOfQuarter, class Record>
HWY_INLINE void Multiply(const Record& of, const uint8_t* w, const Panels& p, const PanelFactor* x, int64_t first,
                         ReadHint hint) {
  const DF d;
  const float* by[kCount];
  for (int i = 0; i < kCount; ++i) by[i] = Record::kOfCodes && x[i].weighted != nullptr ? x[i].weighted : x[i].x;
  constexpr int64_t kQuarter = kPanelLanes / 4;
  for (int64_t lane = p.begin; lane < p.end; lane += kAtOnce * kLanes) {
    const uint8_t* record = w;
    const int64_t quarter = (first + lane) / kQuarter * kOfQuarter;
    int64_t scales = first + lane;  // of a group
    for (int64_t begin = 0; begin < p.inputs; begin += p.group, scales += kPanelLanes) {
      VF sum[kCount][kAtOnce];
      for (int i = 0; i < kCount; ++i) {
        for (int v = 0; v < kAtOnce; ++v)
          sum[i][v] = Record::kOfCodes ? hn::Zero(d) : hn::Load(d, x[i].y + first + lane + v * kLanes);
      }
      const int64_t end = std::min(begin + p.group, p.inputs);
      for (int64_t r = begin; r < end; r += Record::kInputs, record += Record::kBytes) {
        if (lane == 0) Fetch(record, Record::kBytes, hint);
        for (int v = 0; v < kAtOnce; ++v) {
          VF values[Record::kInputs];
          of.Load(record, lane + v * kLanes, values);
          const int64_t at = quarter + v * kLanes / kQuarter * kOfQuarter + r;
          for (int j = 0; j < Record::kInputs; ++j) {
            for (int i = 0; i < kCount; ++i) sum[i][v] = hn::MulAdd(values[j], hn::Set(d, by[i][at + j]), sum[i][v]);
          }
        }
      }
      for (int i = 0; i < kCount; ++i) {
        for (int v = 0; v < kAtOnce; ++v) {
          const int64_t at = first + lane + v * kLanes;
          if constexpr (Record::kOfCodes) {
            VF step = hn::Set(d, Record::kStep), means = hn::Set(d, x[i].beside);
            if (x[i].lane_scales != nullptr) step = hn::Mul(step, hn::Load(d, x[i].lane_scales + scales + v * kLanes));
            if (x[i].lane_minima != nullptr)
              means = hn::MulAdd(hn::Load(d, x[i].lane_minima + at), hn::Set(d, x[i].sum), means);
            sum[i][v] = hn::Add(hn::MulAdd(sum[i][v], step, means), hn::Load(d, x[i].y + at));
          }
          hn::Store(sum[i][v], d, x[i].y + at);
        }
      }
    }
  }
}

// kMost vectors at once, then fewer.
template <int kAtOnce, int64_t kOfQuarter = 0, class Panel>
void Runs(const Panel& of, const Panels& p, const PanelFactor* x, int64_t count, ReadHint hint) {
  const auto* w = reinterpret_cast<const uint8_t*>(p.first);
  for (int64_t n = 0; n < p.count; ++n, w += p.bytes) {
    int64_t i = 0;
    if constexpr (Panel::kMost == 4) {
      for (; i + 4 <= count; i += 4) Multiply<4, kAtOnce, kOfQuarter>(of, w, p, x + i, n * kPanelLanes, hint);
    }
    for (; i + 2 <= count; i += 2) Multiply<2, kAtOnce, kOfQuarter>(of, w, p, x + i, n * kPanelLanes, hint);
    if (i < count) Multiply<1, kAtOnce, kOfQuarter>(of, w, p, x + i, n * kPanelLanes, hint);
  }
  const uint8_t* behind = w - p.bytes + PanelBytes(p.format, p.inputs);
  Fetch(behind, p.behind, hint);
  for (int line = 0; hint == ReadHint::kNear && line < kNearLines; ++line) __builtin_prefetch(behind + 64 * line);
}

template <class Panel>
void EachPanel(const Panel& of, const Panels& p, const PanelFactor* x, int64_t count, ReadHint hint) {
  if constexpr (Panel::kInBlocks) {
    if (p.weights == Panels::Weights::kOfQuarters) return Runs<kVectors, kPageTokens>(of, p, x, count, hint);
  }
  if (p.end - p.begin == kPanelLanes) return Runs<kVectors>(of, p, x, count, hint);
  Runs<kVectorsOfHalf>(of, p, x, count, hint);
}

void ListPanels(const Panels& p, const PanelFactor* x, int64_t count, ReadHint hint) {
  const FormatInfo& info = Info(p.format);
  alignas(64) float list[16] = {};
  std::copy_n(StoredValues(p.format).begin(), 1 << info.bits, list);
  switch (info.bits) {
    case 4:
      return EachPanel(OfList<FourBits>{list}, p, x, count, hint);
    case 3:
      return EachPanel(OfList<ThreeBits>{list}, p, x, count, hint);
    default:
      return EachPanel(OfList<TwoBits>{list}, p, x, count, hint);
  }
}

void Products(const Panels* p, const PanelFactor* x, int64_t count, ReadHint hint) {
  const auto of_codes = [&](auto bits) HWY_ATTR { EachPanel(Integers<decltype(bits)>(), *p, x, count, hint); };
  switch (p->format.base) {
    case Format::kF32:
      return EachPanel(OneFloat(), *p, x, count, hint);
    case Format::kBf16:
      return EachPanel(TwoBf16(), *p, x, count, hint);
    case Format::kFp8E4M3:
    case Format::kMxFp8E4M3:
      return EachPanel(OneFp8<3>(), *p, x, count, hint);
    case Format::kFp8E5M2:
    case Format::kMxFp8E5M2:
      return EachPanel(OneFp8<2>(), *p, x, count, hint);
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
      return ListPanels(*p, x, count, hint);
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
  VF largest = hn::Zero(d), sums[16 / kLanes];
  for (VF& part : sums) part = hn::Zero(d);
  for (int64_t i = 0; i < count; i += 16) {
    for (int64_t j = 0; j < 16; j += kLanes) {
      const VF value = Weighted(x, weights, i + j);
      largest = hn::Max(largest, hn::Abs(value));
      sums[j / kLanes] = hn::Add(sums[j / kLanes], value);
    }
  }
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
  factor->sum = SumOfSixteen(d, sums);
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

void ToPlanes(const float* x, const float* weights, int64_t count, int8_t* high, int8_t* low, PanelFactor& factor) {
  TARE_CHECK(count % 16 == 0);
  factor.high = high;
  factor.low = low;
  TARE_CHOSEN(panel_product::Planes)(x, weights, count, high, low, &factor);
}

float CentreSum(Format format, const float* x, const float* scales, const float* minima, int64_t count) {
  TARE_CHECK(count % 16 == 0);
  return TARE_CHOSEN(panel_product::Centres)(x, scales, minima, static_cast<float>(MiddleOf(format)), count);
}

void ToFactor(const Format& format, const float* x, const float* weights, int64_t count, float* memory,
              PanelFactor& factor) {
  auto* const planes = reinterpret_cast<int8_t*>(memory);
  if (IsInteger(format)) return ToPlanes(x, weights, count, planes, planes + count, factor);
  factor.weighted = weights == nullptr ? nullptr : memory;
  for (int64_t i = 0; weights != nullptr && i < count; ++i) memory[i] = x[i] * weights[i];
  if (weights == nullptr) factor.sum = std::accumulate(x, x + count, 0.0f);  // beside lane_minima
}

void PanelProduct(const Panels& panels, std::span<const PanelFactor> factors, ReadHint hint) {
  TARE_CHECK(panels.inputs % 16 == 0 && IsCached(panels.format));
  const int lanes = panels.end - panels.begin;
  TARE_CHECK(lanes == kPanelLanes || (lanes == kPanelLanes / 2 && HasCodes(panels.format)));
  TARE_CHECK(panels.weights == Panels::Weights::kOfAll ||
             (Info(panels.format).block > 0 && lanes == kPanelLanes && panels.inputs <= kPageTokens));
  TARE_CHECK(panels.begin % lanes == 0 && panels.end <= kPanelLanes && panels.begin >= 0);
  TARE_CHOSEN(panel_product::Products)(&panels, factors.data(), std::ssize(factors), hint);
}

}  // namespace tare
#endif
