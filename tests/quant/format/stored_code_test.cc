// SPDX-License-Identifier: Apache-2.0
// Stored codes against the standards' own tables: some by hand, all by their bit fields.
#include "quant/format/stored_code.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "quant/format/round.h"

namespace tare::stored_code_test {
namespace {

std::vector<Format> Grids() {
  std::vector<Format> formats = SpelledFormats();
  std::erase_if(formats, [](const Format& format) {
    return !HasCodes(format) || IsInteger(format) || Info(format).together > 1;  // e8p: pack_test.cc
  });
  return formats;
}

float At(Format format, int u) { return StoredValues(format)[static_cast<size_t>(u)]; }

// OCP MX 1.0, 5.3, and OCP 8-bit Floating Point 1.0, table 1.
TEST(StoredCode, ByHand) {
  const float e2m1[] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
  for (int u = 0; u < 8; ++u) {
    EXPECT_EQ(At(Format::kMxFp4, u), e2m1[u]) << u;
    EXPECT_EQ(At(Format::kNvFp4, u + 8), -e2m1[u]) << u;
  }
  EXPECT_TRUE(std::signbit(At(Format::kMxFp4, 8)));
  EXPECT_EQ(At(Format::kMxFp6E2M3, 0b011111), 7.5f);
  EXPECT_EQ(At(Format::kMxFp6E2M3, 0b000001), 0.125f);
  EXPECT_EQ(At(Format::kMxFp6E2M3, 0b101000), -1.0f);
  EXPECT_EQ(At(Format::kMxFp6E3M2, 0b011111), 28.0f);
  EXPECT_EQ(At(Format::kMxFp6E3M2, 0b000001), 0.0625f);
  EXPECT_EQ(At(Format::kMxFp6E3M2, 0b000100), 0.25f);
  EXPECT_EQ(At(Format::kFp8E4M3, 0x7e), 448.0f);
  EXPECT_EQ(At(Format::kFp8E4M3, 0x01), 0x1p-9f);
  EXPECT_EQ(At(Format::kFp8E4M3, 0xb8), -1.0f);
  EXPECT_EQ(At(Format::kFp8E5M2, 0x7b), 57344.0f);
  EXPECT_EQ(At(Format::kFp8E5M2, 0x01), 0x1p-16f);
  EXPECT_EQ(At(Format::kFp8E5M2, 0x3c), 1.0f);
  EXPECT_EQ(At(Format::kMxInt8, 0x40), 1.0f);
  EXPECT_EQ(At(Format::kMxInt8, 0x81), -127.0f / 64);
  const float ternary[] = {0.0f, 1.0f, -0.0f, -1.0f};
  for (int u = 0; u < 4; ++u) EXPECT_EQ(At(Format::kTernary, u), ternary[u]) << u;
  EXPECT_EQ(At(Format::kNf4, 7), 0.0f);
  EXPECT_EQ(At(Format::kNf4, 15), 1.0f);
  EXPECT_EQ(At(Format::kInt4, 1), -7.0f);
  EXPECT_EQ(At(Format::kInt8, 0xff), -1.0f);
}

TEST(StoredCode, CodesWithoutAValueAreNaN) {
  for (const int u : {0x7f, 0xff}) EXPECT_TRUE(std::isnan(At(Format::kFp8E4M3, u))) << u;  // its two of NaN
  for (int u = 0x7c; u < 0x80; ++u) {                                                      // infinity, and three of NaN
    EXPECT_TRUE(std::isnan(At(Format::kFp8E5M2, u))) << u;
    EXPECT_TRUE(std::isnan(At(Format::kFp8E5M2, u | 0x80))) << u;
  }
  for (const Format format : {Format::kMxInt8, Format::kInt8}) EXPECT_TRUE(std::isnan(At(format, 0x80)));
  EXPECT_TRUE(std::isnan(At(Format::kInt4, 0)));
  EXPECT_TRUE(std::isnan(At(Format::kMxFp4, 16)));
}

// Every u of every format that stands for a value: the value is the grid's, and its u is this one.
TEST(StoredCode, EveryCodeRoundTrips) {
  for (const Format& format : Grids()) {
    const FormatInfo& info = Info(format);
    int codes = 0;
    for (int u = 0; u < 1 << info.bits; ++u) {
      const float value = At(format, u);
      if (std::isnan(value)) continue;
      ++codes;
      EXPECT_EQ(StoredCode(value, info), u) << Name(format) << ' ' << value;
      EXPECT_EQ(Nearest(value, info.grid), value) << Name(format);
    }
    const int none = info.grid.largest == 448.0f ? 2 : info.grid.largest == 57344.0f ? 8 : info.grid.twos_complement;
    EXPECT_EQ(codes, (1 << info.bits) - none) << Name(format);
  }
}

// Zeros of both signs are two codes where the sign is a bit.
TEST(StoredCode, RoundedValuesHaveCodes) {
  for (const Format& format : Grids()) {
    const FormatInfo& info = Info(format);
    for (float x = -1.1f * info.grid.largest; x < 1.1f * info.grid.largest; x += info.grid.largest / 997) {
      const float value = Nearest(x, info.grid);
      ASSERT_EQ(At(format, StoredCode(value, info)), value) << Name(format) << ' ' << x;
    }
  }
  EXPECT_EQ(StoredCode(-0.0f, Info(Format::kMxFp4)), 8);
}

TEST(StoredCode, EveryScaleRoundTrips) {
  for (const Format& format : Grids()) {
    const FormatInfo& info = Info(format);
    if (format.scale == ScaleType::kF32) continue;
    const float tensor_absmax = IsTwoLevel(format.scale) ? 0x1.8p100f : 0.0f;
    const float of_tensor = IsTwoLevel(format.scale) ? TensorScale(tensor_absmax, info.grid, format.scale) : 1.0f;
    for (float absmax = 0x1p-130f; absmax < 0x1p100f; absmax *= 1.13f) {
      const float scale = ScaleFor(absmax, format, tensor_absmax).scale;
      const uint8_t u = StoredScale(scale, format.scale, of_tensor);
      ASSERT_EQ(ScaleValues(format.scale)[u] * of_tensor, scale) << Name(format) << ' ' << absmax;
    }
    EXPECT_EQ(StoredScale(0.0f, format.scale, of_tensor), 0) << Name(format);
  }
  for (int u = 0; u < 255; ++u)
    EXPECT_EQ(StoredScale(ScaleValues(ScaleType::kE8M0Floor)[static_cast<size_t>(u)], ScaleType::kE8M0Floor, 1.0f), u);
  for (int u = 0; u < 127; ++u) {
    for (const float t : {0x1p-111f, 0.7f, 1.1e35f})
      EXPECT_EQ(StoredScale(ScaleValues(ScaleType::kTwoLevel)[static_cast<size_t>(u)] * t, ScaleType::kTwoLevel, t), u);
  }
  EXPECT_TRUE(std::isnan(ScaleValues(ScaleType::kE8M0Ceil)[255]));
  EXPECT_TRUE(std::isnan(ScaleValues(ScaleType::kTwoLevel)[127]));
  EXPECT_TRUE(std::isnan(ScaleValues(ScaleType::kTwoLevel)[0x80]));
}

}  // namespace
}  // namespace tare::stored_code_test
