// SPDX-License-Identifier: Apache-2.0
// For the target that tests are compiled for; tests of its users cover all targets.
#include "kernels/linear/panel_codes-inl.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/cache/panel.h"
#include "kernels/linear/packed_matrix.h"
#include "quant/base/aligned.h"
#include "tests/support/random_quantized.h"

namespace tare::panel_codes_test {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
namespace simd = HWY_NAMESPACE;

// The first record of a panel, one vector of lanes after the other.
template <class Bits>
void ExpectCodesOf(Format format) {
  using D8 = hn::CappedTag<uint8_t, 64>;
  const D8 d;
  constexpr int kInputs = 4 * Bits::kGroups, kBytes = HWY_MAX_LANES_D(D8);
  QuantizedMatrixBuffer weights = RandomQuantized(format, 64, 16, 16, 3);
  for (int n = 0; n < 64; ++n) weights.Scales(n)[0] = 1;
  const PackedMatrix packed(weights.view());
  std::vector<float> row(16);
  for (int byte = 0; byte < 256; byte += kBytes) {
    hn::Vec<D8> codes[Bits::kGroups];
    Bits::Unpack(d, packed.Codes(0), byte, codes);
    for (int r = 0; r < kInputs; ++r) {
      HWY_ALIGN uint8_t got[kBytes];
      hn::Store(codes[r / 4], d, got);
      for (int lane = 0; lane < kBytes / 4; ++lane) {
        DequantizeRow(weights.view(), byte / 4 + lane, row.data());
        EXPECT_EQ(got[4 * lane + r % 4] - Bits::kOffset, row[r]) << Name(format) << lane << " " << r;
      }
    }
  }
  EXPECT_EQ(Bits::kRecordBytes, static_cast<int64_t>(packed.PanelBytes()) * kInputs / 16);
}

TEST(PanelCodes, UnpackIsTheInverseOfPacking) {
  ExpectCodesOf<simd::EightBits>(Format::kInt8);
  ExpectCodesOf<simd::SixBits>(Format::kInt6);
  ExpectCodesOf<simd::FourBits>(Format::kInt4);
}

// The codes of a cache's panel, which is as wide as a panel of weights: every lane of a record.
template <class Bits>
void ExpectCachedCodesOf(Format format) {
  using D8 = hn::CappedTag<uint8_t, 64>;
  const D8 d;
  constexpr int kInputs = 4 * Bits::kGroups, kBytes = HWY_MAX_LANES_D(D8);
  ASSERT_EQ(Bits::kRecordBytes, PanelBytes(format, kInputs));
  ASSERT_EQ(Bits::kOffset, MiddleOf(format));
  AlignedBuffer<std::byte> panel(static_cast<size_t>(Bits::kRecordBytes));
  std::ranges::fill(panel.span(), std::byte{0});
  const auto code = [&](int r, int lane) { return (5 * r + 3 * lane + lane / 4) % (2 * Bits::kOffset); };
  for (int r = 0; r < kInputs; ++r) {
    for (int lane = 0; lane < 64; ++lane) {
      const auto value = static_cast<float>(code(r, lane) - RaisedBy(format));
      WritePanel(format, panel.data(), {r, lane, 0, 0}, &value, 1);
    }
  }
  for (int byte = 0; byte < 256; byte += kBytes) {
    hn::Vec<D8> codes[Bits::kGroups];
    Bits::Unpack(d, reinterpret_cast<const uint8_t*>(panel.data()), byte, codes);
    for (int r = 0; r < kInputs; ++r) {
      HWY_ALIGN uint8_t got[kBytes];
      hn::Store(codes[r / 4], d, got);
      for (int lane = 0; lane < kBytes / 4; ++lane)
        ASSERT_EQ(got[4 * lane + r % 4], code(r, byte / 4 + lane)) << Name(format) << lane << " " << r;
    }
  }
}

TEST(PanelCodes, UnpackIsTheInverseOfWritingACache) {
  ExpectCachedCodesOf<simd::EightBits>(Format::kInt8);
  ExpectCachedCodesOf<simd::SixBits>(Format::kInt6);
  ExpectCachedCodesOf<simd::FourBits>(Format::kInt4);
  ExpectCachedCodesOf<simd::ThreeBits>(Format::kInt3);
  ExpectCachedCodesOf<simd::TwoBits>(Format::kInt2);
  ExpectCachedCodesOf<simd::EightBits>(WithRange(Format::kInt8, CodeRange::kMin));  // codes above 127
  ExpectCachedCodesOf<simd::TwoBits>(WithRange(Format::kInt2, CodeRange::kZero));
}

TEST(PanelCodes, FourInputsMultiplyBothPlanes) {
  using DI = simd::DI;
  const DI di;
  const int8_t high[4] = {1, -2, 3, -127}, low[4] = {-64, 63, 0, 5};
  HWY_ALIGN int32_t sums[2][HWY_MAX_LANES_D(DI)];
  auto high_sum = hn::Set(di, 10), low_sum = hn::Set(di, 20);
  const auto codes = hn::Set(hn::Repartition<uint8_t, DI>(), 255);
  simd::FourInputs(high, low).Accumulate<simd::EightBits>(codes, high_sum, low_sum);
  hn::Store(high_sum, di, sums[0]);
  hn::Store(low_sum, di, sums[1]);
  EXPECT_EQ(sums[0][0], 10 - 255 * 125);
  EXPECT_EQ(sums[1][0], 20 + 255 * 4);
}

}  // namespace
}  // namespace tare::panel_codes_test
