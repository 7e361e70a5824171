// SPDX-License-Identifier: Apache-2.0
// Storage layouts against the drawing in pack.h, written out bit by bit here, for every length to three groups.
#include "quant/format/pack.h"

#include <cmath>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "quant/format/round.h"
#include "tests/support/call.h"

namespace tare::pack_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

template <typename Code>
std::vector<Code> RandomCodes(Format format, size_t count) {
  std::mt19937 random(static_cast<unsigned>(count));
  std::uniform_int_distribution<int> code(Info(format).min_code, Info(format).max_code);
  std::vector<Code> codes(count);
  for (Code& c : codes) c = static_cast<Code>(code(random));
  return codes;
}

template <typename Code>
std::vector<uint8_t> Packed(Format format, const std::vector<Code>& codes) {
  std::vector<uint8_t> packed(PackedBytes(format, codes.size()), 0x5a);
  Pack<Code>(format, codes, packed);
  return packed;
}

template <typename Code>
void ExpectRoundTrip(Format format) {
  for (size_t count = 0; count <= 3 * kPackGroup; ++count) {
    const std::vector<Code> codes = RandomCodes<Code>(format, count);
    std::vector<Code> back(count);
    Unpack<Code>(format, Packed<Code>(format, codes), back);
    ASSERT_EQ(back, codes) << Name(format) << " " << count;
  }
}

TEST(Pack, RoundTripsEveryLength) {
  for (const Format format : {Format::kInt8, Format::kInt6, Format::kInt4, Format::kInt3, Format::kInt2})
    ExpectRoundTrip<int8_t>(format);
  for (const Format format : {Format::kU8, Format::kU6, Format::kU4}) ExpectRoundTrip<uint8_t>(format);
}

TEST(Pack, Bytes) {
  EXPECT_EQ(PackedBytes(Format::kInt8, 65), 65u);
  EXPECT_EQ(PackedBytes(Format::kInt4, 65), 64u);
  EXPECT_EQ(PackedBytes(Format::kInt6, 65), 96u);
  EXPECT_EQ(PackedBytes(Format::kInt3, 65), 48u);
  EXPECT_EQ(PackedBytes(Format::kInt2, 65), 32u);
  EXPECT_EQ(PackedBytes(Format::kInt6, 0), 0u);
}

// Where each value's bits lie: set one code at a time in a group of zeros.
TEST(Pack, Int4Layout) {
  for (size_t i = 0; i < kPackGroup; ++i) {
    std::vector<int8_t> codes(kPackGroup);
    codes[i] = -3;  // stored 5
    std::vector<uint8_t> want(32, 0x88);
    want[i % 32] = i < 32 ? 0x85 : 0x58;
    ASSERT_EQ(Packed(Format::kInt4, codes), want) << i;
  }
}

TEST(Pack, Int6Layout) {
  for (size_t i = 0; i < kPackGroup; ++i) {
    std::vector<int8_t> codes(kPackGroup);
    codes[i] = 23;  // stored 55: low 7, high 3; zeros are stored as 32: low 0, high 2
    std::vector<uint8_t> want(48, 0x00);
    std::fill(want.begin() + 32, want.end(), 0xaa);
    want[i % 32] = i < 32 ? 0x07 : 0x70;
    want[32 + i % 16] = static_cast<uint8_t>(0xaa | 1 << (i / 16 * 2));
    ASSERT_EQ(Packed(Format::kInt6, codes), want) << i;
  }
}

TEST(Pack, Int3Layout) {
  for (size_t i = 0; i < kPackGroup; ++i) {
    std::vector<int8_t> codes(kPackGroup);
    codes[i] = -3;  // stored 1: low 1, high 0; zeros are stored as 4: low 0, high 1
    std::vector<uint8_t> want(24, 0x00);
    std::fill(want.begin() + 16, want.end(), 0xff);
    want[i % 16] = static_cast<uint8_t>(1 << (i / 16 * 2));
    want[16 + i % 8] = static_cast<uint8_t>(0xff ^ 1 << (i / 8));
    ASSERT_EQ(Packed(Format::kInt3, codes), want) << i;
  }
}

TEST(Pack, Int2Layout) {
  for (size_t i = 0; i < kPackGroup; ++i) {
    std::vector<int8_t> codes(kPackGroup);
    codes[i] = 1;  // stored 3; zeros are stored as 2
    std::vector<uint8_t> want(16, 0xaa);
    want[i % 16] = static_cast<uint8_t>(0xaa | 1 << (i / 16 * 2));
    ASSERT_EQ(Packed(Format::kInt2, codes), want) << i;
  }
}

TEST(Pack, RefusesInvalidCodes) {
  const std::vector<int8_t> codes = {0, -8};
  std::vector<uint8_t> packed(32);
  EXPECT_THAT(Call([&] { Pack<int8_t>(Format::kInt4, codes, packed); }),
              ThrowsMessage<Error>(HasSubstr("code -8 at 1")));
  std::vector<int8_t> back(2);
  EXPECT_THAT(Call([&] { Unpack<int8_t>(Format::kInt4, packed, back); }),
              ThrowsMessage<Error>(HasSubstr("code -8 at 0")));
  std::vector<uint8_t> tail(32, 0x88);
  tail[5] = 0x89;
  EXPECT_THAT(Call([&] { Unpack<int8_t>(Format::kInt4, tail, back); }),
              ThrowsMessage<Error>(HasSubstr("after the last")));
  const std::vector<uint8_t> bytes = {0x80, 0};
  EXPECT_THAT(Call([&] { Unpack<int8_t>(Format::kInt8, bytes, back); }),
              ThrowsMessage<Error>(HasSubstr("code -128 at 0")));
}

TEST(Pack, RefusesSizesAndTypesThatDisagree) {
  std::vector<uint8_t> packed(31);
  const std::vector<int8_t> codes(2);
  EXPECT_THAT(Call([&] { Pack<int8_t>(Format::kInt4, codes, packed); }),
              ThrowsMessage<Error>(HasSubstr("31 bytes for 2 codes, expected 32")));
  EXPECT_THAT(Call([&] { Pack<int8_t>(Format::kU4, codes, packed); }),
              ThrowsMessage<Error>(HasSubstr("u4 for signed")));
  EXPECT_THAT(Call([&] { Pack<int8_t>(Format::kF32, codes, packed); }), ThrowsMessage<Error>(HasSubstr("f32")));
}

// Two bytes, the low one first, of each eight values.
TEST(Pack, PointsOfALattice) {
  std::vector<float> points(3 * kLatticeWidth), back(points.size());
  const uint16_t codes[] = {0, 0x8102, 0xffff};
  for (size_t i = 0; i < 3; ++i) LatticePoint(codes[i], &points[i * kLatticeWidth]);
  ASSERT_EQ(PackedBytes(Format::kE8P, points.size()), 6u);
  std::vector<uint8_t> packed(6);
  Pack<float>(Format::kE8P, points, packed);
  EXPECT_EQ(packed, (std::vector<uint8_t>{0, 0, 0x02, 0x81, 0xff, 0xff}));
  Unpack<float>(Format::kE8P, packed, back);
  EXPECT_EQ(back, points);
  points[9] = 0.5f;
  EXPECT_THAT(Call([&] { Pack<float>(Format::kE8P, points, packed); }),
              ThrowsMessage<Error>(HasSubstr("got values at 8 to 15 that are no point")));
  points.resize(12);
  packed.resize(PackedBytes(Format::kE8P, 12));
  EXPECT_THAT(Call([&] { Pack<float>(Format::kE8P, points, packed); }),
              ThrowsMessage<Error>(HasSubstr("got 12 values, expected a multiple of 8")));
}

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
}  // namespace tare::pack_test
