// SPDX-License-Identifier: Apache-2.0
// The layouts that panel.h draws, bit by bit, and every code at every place.
#include "kernels/cache/panel.h"

#include <gtest/gtest.h>

#include <vector>

#include "quant/format/format.h"
#include "tests/support/panel_input.h"
#include "tests/support/ranged_integers.h"

namespace tare::panel_test {
namespace {

// The bytes of a panel of 16 inputs that are not those of zeros when the code of input r of lane l is written.
struct Changed {
  int64_t byte;
  int bits;
};
std::vector<Changed> ChangedBy(Format format, int r, int lane, float code) {
  std::vector<std::byte> panel(static_cast<size_t>(PanelBytes(format, 16)), std::byte{0});
  WritePanel(format, panel.data(), {r, lane, 0, 0}, &code, 1);
  std::vector<Changed> changed;
  for (size_t i = 0; i < panel.size(); ++i)
    if (panel[i] != std::byte{0}) changed.push_back({static_cast<int64_t>(i), std::to_integer<int>(panel[i])});
  return changed;
}

void ExpectBits(Format format, int r, int lane, float code, const std::vector<Changed>& expected) {
  const std::vector<Changed> got = ChangedBy(format, r, lane, code);
  ASSERT_EQ(got.size(), expected.size()) << Name(format);
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].byte, expected[i].byte) << Name(format);
    EXPECT_EQ(got[i].bits, expected[i].bits) << Name(format);
  }
}

TEST(CachePanel, BitsLieAsDrawn) {
  constexpr Format kTwo = WithRange(Format::kInt2, CodeRange::kMin),
                   kThree = WithRange(Format::kInt3, CodeRange::kZero);
  ExpectBits(Format::kInt4, 5, 3, 7, {{4 * 3 + 1, 15 << 4}});                                     // 7 + 8
  ExpectBits(Format::kInt6, 13, 2, 31, {{256 + 4 * 2 + 1, 15 << 4}, {512 + 4 * 2 + 1, 3 << 6}});  // 31 + 32
  ExpectBits(WithRange(Format::kInt8, CodeRange::kMin), 2, 1, 255, {{4 + 2, 127}});
  ExpectBits(Format::kInt2, 6, 63, 1, {{4 * 63 + 2, 3 << 2}});                        // 1 + 2
  ExpectBits(kTwo, 6, 63, 2, {{4 * 63 + 2, 2 << 2}});                                 // 2
  ExpectBits(Format::kInt3, 15, 1, 3, {{4 * 1 + 3, 3 << 6}, {256 + 2 + 1, 1 << 7}});  // 3 + 4: bit 4 x 3 + 3 of 16
  ExpectBits(kThree, 1, 10, 4, {{256 + 2 * 10, 1 << 4}});                             // 4: bit 4 x 1 + 0
}

TEST(CachePanel, EveryCodeAtEveryPlaceComesBack) {
  constexpr int kInputs = 32;
  for (const Format& ranged : RangedIntegers()) {
    for (const Format& format : {ranged, WithRange(ranged, CodeRange::kOwn)}) {
      const FormatInfo f = Info(format);
      const int count = f.max_code - f.min_code + 1;
      std::vector<std::byte> panel(static_cast<size_t>(PanelBytes(format, kInputs)), std::byte{0x5a});
      const auto code = [&](int input, int lane) {
        return static_cast<float>(f.min_code + (7 * input + lane) % count);
      };
      for (int input = 0; input < kInputs; ++input) {
        float codes[kPanelLanes];
        for (int lane = 0; lane < kPanelLanes; ++lane) codes[lane] = code(input, lane);
        WritePanel(format, panel.data(), {input, 0, 0, 1}, codes, kPanelLanes);
      }
      for (int input = 0; input < kInputs; ++input)
        for (int lane = 0; lane < kPanelLanes; ++lane)
          ASSERT_EQ(ReadInput(format, panel.data(), input, lane), code(input, lane))
              << Name(format) << input << " " << lane;
    }
  }
}

TEST(CachePanel, FormatsOfCaches) {
  EXPECT_TRUE(IsCached(Format::kF32) && IsCached(Format::kBf16) && IsCached(Format::kInt2));
  EXPECT_TRUE(IsCached(WithRange(Format::kInt3, CodeRange::kZero)));
  EXPECT_FALSE(IsCached(Format::kU4) || IsCached(Format::kMxInt8) || IsCached(Format::kTernary));
  EXPECT_EQ(PanelBytes(Format::kInt2, 48), 64 * 48 / 4);
  EXPECT_EQ(PanelBytes(Format::kInt3, 16), 384);
}

}  // namespace
}  // namespace tare::panel_test
