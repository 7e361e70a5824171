// SPDX-License-Identifier: Apache-2.0
// Storage layouts against the drawing in pack.h, written out bit by bit here, for every length to three groups.
#include "quant/format/pack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <type_traits>
#include <vector>

#include "quant/base/error.h"
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

}  // namespace
}  // namespace tare::pack_test
