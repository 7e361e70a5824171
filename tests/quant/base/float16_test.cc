// SPDX-License-Identifier: Apache-2.0
// Exhaustive over the 2^16 bit patterns of both types. A pattern's value is computed here from sign, exponent and
// mantissa in double; the way back is checked for round-to-nearest-even at every value, every midpoint, and the floats
// beside each midpoint.
#include "quant/base/float16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tare::float16_test {
namespace {

struct Type {
  int exponent_bits;
  int mantissa_bits;
  float (*to_float)(uint16_t);
  uint16_t (*from_float)(float);
};

constexpr Type kBf16{8, 7, FloatFromBf16, Bf16FromFloat};
constexpr Type kF16{5, 10, FloatFromF16, F16FromFloat};

// NaN for a pattern that is one.
double Meaning(const Type& type, uint16_t bits) {
  const int mantissa = bits & ((1 << type.mantissa_bits) - 1);
  const int exponent = (bits >> type.mantissa_bits) & ((1 << type.exponent_bits) - 1);
  const int bias = (1 << (type.exponent_bits - 1)) - 1;
  const double sign = bits & 0x8000 ? -1.0 : 1.0;
  if (exponent == (1 << type.exponent_bits) - 1) {
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  }
  const int whole = exponent == 0 ? mantissa : mantissa + (1 << type.mantissa_bits);
  return sign * std::ldexp(whole, std::max(exponent, 1) - bias - type.mantissa_bits);
}

class Float16 : public testing::TestWithParam<Type> {};

TEST_P(Float16, EveryPatternMeansWhatItShouldAndComesBack) {
  const Type& type = GetParam();
  for (uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
    const uint16_t bits = static_cast<uint16_t>(pattern);
    const double meaning = Meaning(type, bits);
    const float value = type.to_float(bits);
    if (std::isnan(meaning)) {
      ASSERT_TRUE(std::isnan(value)) << pattern;
      ASSERT_TRUE(std::isnan(type.to_float(type.from_float(value)))) << pattern;
      continue;
    }
    ASSERT_EQ(value, meaning) << pattern;
    ASSERT_EQ(std::signbit(value), std::signbit(meaning)) << pattern;
    ASSERT_EQ(type.from_float(value), bits) << pattern;
  }
}

// Between neighbours a < b of one sign: at the middle the even pattern wins, and a step of f32 to either side decides.
TEST_P(Float16, RoundsToTheNearestTiesToEven) {
  const Type& type = GetParam();
  const uint32_t infinity = ((1u << type.exponent_bits) - 1) << type.mantissa_bits;
  for (uint32_t sign : {0u, 0x8000u}) {
    for (uint32_t below = 0; below < infinity; ++below) {
      const double a = Meaning(type, static_cast<uint16_t>(below));
      // The step into infinity is as long as the one before it.
      const double step = below + 1 == infinity ? a - Meaning(type, static_cast<uint16_t>(below - 1))
                                                : Meaning(type, static_cast<uint16_t>(below + 1)) - a;
      const float middle = static_cast<float>(a + step / 2);
      ASSERT_EQ(middle, a + step / 2) << "the test's own middle must be a float";
      const float factor = sign ? -1.0f : 1.0f;
      const uint32_t even = below % 2 == 0 ? below : below + 1;
      ASSERT_EQ(type.from_float(factor * middle), sign | even) << below;
      ASSERT_EQ(type.from_float(factor * std::nextafter(middle, 0.0f)), sign | below) << below;
      ASSERT_EQ(type.from_float(factor * std::nextafter(middle, std::numeric_limits<float>::infinity())),
                sign | (below + 1))
          << below;
    }
  }
}

TEST_P(Float16, NanWithAnyPayloadStaysNan) {
  for (uint32_t payload = 1; payload < 0x800000u; payload = payload * 3 + 1) {
    for (const uint32_t sign : {0u, 0x80000000u}) {
      const float nan = std::bit_cast<float>(sign | 0x7f800000u | payload);
      ASSERT_TRUE(std::isnan(GetParam().to_float(GetParam().from_float(nan)))) << payload;
    }
  }
}

// Between neighbours, of either sign: a step of f32 past one is the other's side.
TEST(F16, RoundsDownAndUp) {
  for (uint32_t below = 0; below + 1 < 0x7c00u; ++below) {
    const auto bits = static_cast<uint16_t>(below), above = static_cast<uint16_t>(below + 1);
    const float a = FloatFromF16(bits), b = FloatFromF16(above);
    for (const float between : {std::nextafter(a, b), a / 2 + b / 2, std::nextafter(b, a)}) {
      ASSERT_EQ(F16AtMost(between), bits) << below;
      ASSERT_EQ(F16AtLeast(between), above) << below;
      ASSERT_EQ(FloatFromF16(F16AtMost(-between)), -b) << below;
      ASSERT_EQ(FloatFromF16(F16AtLeast(-between)), -a) << below;
    }
    for (const float same : {a, -a}) {
      ASSERT_EQ(FloatFromF16(F16AtMost(same)), same);
      ASSERT_EQ(FloatFromF16(F16AtLeast(same)), same);
    }
  }
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float beyond : {65505.0f, 65520.0f, 1e9f, std::numeric_limits<float>::max()}) {
    EXPECT_EQ(FloatFromF16(F16AtMost(beyond)), 65504.0f);
    EXPECT_EQ(FloatFromF16(F16AtLeast(beyond)), infinity);
    EXPECT_EQ(FloatFromF16(F16AtMost(-beyond)), -infinity);
    EXPECT_EQ(FloatFromF16(F16AtLeast(-beyond)), -65504.0f);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Float16, testing::Values(kBf16, kF16),
                         [](const auto& test) { return test.param.mantissa_bits == 7 ? "Bf16" : "F16"; });

}  // namespace
}  // namespace tare::float16_test
