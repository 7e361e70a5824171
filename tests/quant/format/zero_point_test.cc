// SPDX-License-Identifier: Apache-2.0
#include "quant/format/zero_point.h"

#include <gtest/gtest.h>

#include <random>

namespace tare::zero_point_test {
namespace {

constexpr Format kUnsigned[] = {Format::kU8, Format::kU6, Format::kU4};

int Code(float x, const ZeroPointScale& z) { return static_cast<int>(std::nearbyint(x * z.scale.inv)) + z.zero; }

// Ends at ties included: ranges of whole and half steps.
TEST(ZeroPoint, CodesNeverLeaveTheFormat) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> exponent(-90.0f, 100.0f), share(0.0f, 1.0f);
  for (const Format& format : kUnsigned) {
    const int qmax = Info(format).max_code;
    const auto check = [&](float low, float high) {
      const ZeroPointScale z = ZeroPointScaleFor(low, high, format);
      ASSERT_GE(Code(std::min(low, 0.0f), z), 0) << low << ' ' << high;
      ASSERT_LE(Code(std::max(high, 0.0f), z), qmax) << low << ' ' << high;
      ASSERT_TRUE(z.zero >= 0 && z.zero <= qmax) << low << ' ' << high;
    };
    for (int half = 0; half <= 2 * qmax; ++half)
      check(-0.5f * static_cast<float>(half), 0.5f * static_cast<float>(2 * qmax - half));
    for (int i = 0; i < 20000; ++i) {
      const float range = std::exp2(exponent(random)), below = share(random);
      check(-range * below, range * (1 - below));
    }
  }
}

TEST(ZeroPoint, AValueComesBackWithinHalfAStepAndZeroExactly) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  for (const Format& format : kUnsigned) {
    for (int i = 0; i < 2000; ++i) {
      const float a = normal(random), b = normal(random), low = std::min(a, b), high = std::max(a, b);
      const ZeroPointScale z = ZeroPointScaleFor(low, high, format);
      const float x = low + (high - low) * 0.37f;
      EXPECT_NEAR(static_cast<float>(Code(x, z) - z.zero) * z.scale.scale, x, 0.5001f * z.scale.scale);
      EXPECT_EQ(Code(0.0f, z), z.zero);
    }
  }
}

TEST(ZeroPoint, OneSidedAndEmptyRanges) {
  for (const Format& format : kUnsigned) {
    EXPECT_EQ(ZeroPointScaleFor(0.25f, 1.0f, format).zero, 0);
    EXPECT_EQ(ZeroPointScaleFor(-1.0f, -0.25f, format).zero, Info(format).max_code);
    EXPECT_EQ(ZeroPointScaleFor(0.0f, 0.0f, format).scale.inv, 0.0f);
  }
}

}  // namespace
}  // namespace tare::zero_point_test
