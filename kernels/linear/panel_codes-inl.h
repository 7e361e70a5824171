// SPDX-License-Identifier: Apache-2.0
// Codes of a panel (packed_matrix.h, and kernels/cache/panel.h, which has those of three and two bits too) as unsigned
// bytes in registers: one vector of a record's lanes becomes kGroups vectors with 4 inputs per lane, as u8 x s8
// instructions take them, each code raised by kOffset. `at`: of the first lane, times 4. Also the 8-bit integers that
// such a vector is multiplied by: x = 128 high + low.
#include <cstdint>
#include <cstring>

#include "kernels/elementwise/lanes-inl.h"
#include "kernels/product/tile_product.h"

#if defined(TARE_PANEL_CODES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TARE_PANEL_CODES_INL_H_
#undef TARE_PANEL_CODES_INL_H_
#else
#define TARE_PANEL_CODES_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace tare {
namespace HWY_NAMESPACE {

inline constexpr int64_t kPanelGroupBytes = 256;  // of 64 lanes x 4 inputs

template <class D8, class V8 = hn::Vec<D8>>
HWY_INLINE V8 LowNibbles(D8 d, V8 v) {
  return hn::And(v, hn::Set(d, 15));
}

// Highway's shift of bytes is an affine product on AVX-512 with GFNI, which Zen 4 issues where it issues u8 x s8 (an
// int4 panel times two planes in the first cache: 5 of those a vector instead of 4).
template <class D8, class V8 = hn::Vec<D8>>
HWY_INLINE V8 HighNibbles(D8 d, V8 v) {
  const hn::Repartition<uint16_t, D8> pairs;
  return LowNibbles(d, hn::BitCast(d, hn::ShiftRight<4>(hn::BitCast(pairs, v))));
}

// Codes as unsigned factors of four products a lane, times kRaisedBy of which the sums of x are taken off.
template <int kBy>
struct Raised {
  static constexpr int kOffset = kBy, kRaisedBy = kBy;
  static HWY_INLINE VI Accumulate(auto codes, auto x, VI sum) {
    return hn::SumOfMulQuadAccumulate(DI(), codes, x, sum);
  }
};

struct EightBits : Raised<128> {
  static constexpr int kGroups = 1;
  static constexpr int64_t kRecordBytes = kPanelGroupBytes;
  template <class D8, class V8 = hn::Vec<D8>>
  static HWY_INLINE void Unpack(D8 d, const uint8_t* record, int64_t at, V8* codes) {
    codes[0] = hn::Xor(hn::Load(d, record + at), hn::Set(d, 128));
  }
};

struct SixBits : Raised<32> {
  static constexpr int kGroups = 4;
  static constexpr int64_t kRecordBytes = 3 * kPanelGroupBytes;
  template <class D8, class V8 = hn::Vec<D8>>
  static HWY_INLINE void Unpack(D8 d, const uint8_t* record, int64_t at, V8* codes) {
    const V8 top = hn::Set(d, 0x30);
    const uint8_t* w = record + at;
    const V8 a = hn::Load(d, w), b = hn::Load(d, w + kPanelGroupBytes), c = hn::Load(d, w + 2 * kPanelGroupBytes);
    codes[0] = hn::OrAnd(LowNibbles(d, a), hn::ShiftLeft<4>(c), top);
    codes[1] = hn::OrAnd(hn::ShiftRight<4>(a), hn::ShiftLeft<2>(c), top);
    codes[2] = hn::OrAnd(LowNibbles(d, b), c, top);
    codes[3] = hn::OrAnd(hn::ShiftRight<4>(b), hn::ShiftRight<2>(c), top);
  }
};

struct FourBits : Raised<8> {
  static constexpr int kGroups = 2;
  static constexpr int64_t kRecordBytes = kPanelGroupBytes;
  template <class D8, class V8 = hn::Vec<D8>>
  static HWY_INLINE void Unpack(D8 d, const uint8_t* record, int64_t at, V8* codes) {
    const V8 a = hn::Load(d, record + at);
    codes[0] = LowNibbles(d, a);
    codes[1] = HighNibbles(d, a);
  }
};

// Shifts of pairs of bytes, as in HighNibbles: what comes from the neighbour is masked.
struct TwoBits : Raised<2> {
  static constexpr int kGroups = 4;
  static constexpr int64_t kRecordBytes = kPanelGroupBytes;
  template <class D8, class V8 = hn::Vec<D8>>
  static HWY_INLINE void Unpack(D8 d, const uint8_t* record, int64_t at, V8* codes) {
    const hn::Repartition<uint16_t, D8> pairs;
    const V8 low = hn::Set(d, 3), a = hn::Load(d, record + at);
    const auto wide = hn::BitCast(pairs, a);
    codes[0] = hn::And(a, low);
    codes[1] = hn::And(hn::BitCast(d, hn::ShiftRight<2>(wide)), low);
    codes[2] = hn::And(hn::BitCast(d, hn::ShiftRight<4>(wide)), low);
    codes[3] = hn::And(hn::BitCast(d, hn::ShiftRight<6>(wide)), low);
  }
};

// A lane's 16 high bits are spread to its four bytes, four to each, from where a shift takes them to bit 2.
struct ThreeBits : Raised<4> {
  static constexpr int kGroups = 4;
  static constexpr int64_t kRecordBytes = kPanelGroupBytes * 3 / 2;
  template <class D8, class V8 = hn::Vec<D8>>
  static HWY_INLINE void Unpack(D8 d, const uint8_t* record, int64_t at, V8* codes) {
    const hn::Repartition<uint32_t, D8> lanes;
    const hn::Rebind<uint16_t, decltype(lanes)> halves;
    auto high =
        hn::PromoteTo(lanes, hn::Load(halves, reinterpret_cast<const uint16_t*>(record + kPanelGroupBytes + at / 2)));
    high = hn::And(hn::Or(high, hn::ShiftLeft<8>(high)), hn::Set(lanes, 0x00ff00ffu));
    high = hn::And(hn::Or(high, hn::ShiftLeft<4>(high)), hn::Set(lanes, 0x0f0f0f0fu));
    TwoBits::Unpack(d, record, at, codes);
    const V8 top = hn::Set(d, 4);
    codes[0] = hn::OrAnd(codes[0], hn::BitCast(d, hn::ShiftLeft<2>(high)), top);
    codes[1] = hn::OrAnd(codes[1], hn::BitCast(d, hn::ShiftLeft<1>(high)), top);
    codes[2] = hn::OrAnd(codes[2], hn::BitCast(d, high), top);
    codes[3] = hn::OrAnd(codes[3], hn::BitCast(d, hn::ShiftRight<1>(high)), top);
  }
};

#if HWY_TARGET_IS_NEON
// ARM's sdot multiplies signed bytes: codes below 128 are that, and those of EightBits become it again. Assembled by
// hand, for processors that have it and no bf16 (Neoverse N1, Apple M1) have no target of Highway's with it.
template <class Bits>
struct Signed : Bits {
  static constexpr int kRaisedBy = Bits::kOffset == 128 ? 0 : Bits::kOffset;
  static HWY_INLINE VI Accumulate(auto codes, auto x, VI sum) {
    if constexpr (kRaisedBy == 0) codes = hn::Xor(codes, hn::Set(hn::DFromV<decltype(codes)>(), 128));
    asm(".arch_extension dotprod\n\tsdot %0.4s, %1.16b, %2.16b" : "+w"(sum.raw) : "w"(codes.raw), "w"(x.raw));
    return sum;
  }
};
#endif

// run(Bits()), or Signed<Bits> where the processor has sdot.
template <class Bits>
HWY_INLINE void WithFactor(auto run) {
#if HWY_TARGET_IS_NEON
  if (Has(ArmUnit::kSdot)) return run(Signed<Bits>());
#endif
  run(Bits());
}

// Broadcasts four inputs of x, both planes, to every lane.
struct FourInputs {
  using DS8 = hn::Repartition<int8_t, DI>;

  HWY_INLINE FourInputs(const int8_t* high_plane, const int8_t* low_plane)
      : high(Broadcast(high_plane)), low(Broadcast(low_plane)) {}
  static HWY_INLINE hn::Vec<DS8> Broadcast(const int8_t* plane) {
    int32_t four;
    std::memcpy(&four, plane, 4);
    return hn::BitCast(DS8(), hn::Set(DI(), four));
  }
  template <class Factor>
  HWY_INLINE void Accumulate(auto codes, VI& high_sum, VI& low_sum) const {
    high_sum = Factor::Accumulate(codes, high, high_sum);
    low_sum = Factor::Accumulate(codes, low, low_sum);
  }

  hn::Vec<DS8> high, low;
};

}  // namespace HWY_NAMESPACE
}  // namespace tare
HWY_AFTER_NAMESPACE();

#endif
