// SPDX-License-Identifier: Apache-2.0
// The scalar quantizer by hand: ties, zeros, tiny groups.
#include "quant/format/round.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/quantize_group.h"

namespace tare::round_test {
namespace {

std::vector<Format> CodedFormats() {
  std::vector<Format> formats;
  for (const FormatRow& row : kFormats) {
    if (IsInteger(row.base)) formats.emplace_back(row.base);
  }
  return formats;
}

TEST(Round, TheHeadersExample) {
  const Scale scale = ScaleFor(2.0f, Format::kInt8);
  EXPECT_EQ(scale.inv, 63.5f);
  EXPECT_EQ(scale.scale, 2.0f / 127.0f);
  EXPECT_EQ(CodeOf(0.5f, scale.inv, Format::kInt8), 32);
  EXPECT_EQ(CodeOf(-1.0f / 127.0f, scale.inv, Format::kInt8), 0);
}

TEST(Round, TiesGoToTheEvenCode) {
  for (const Format& format : CodedFormats()) {
    for (int code = Info(format).min_code; code < Info(format).max_code; ++code) {
      const int even = code % 2 == 0 ? code : code + 1;
      EXPECT_EQ(CodeOf(static_cast<float>(code) + 0.5f, 1.0f, format), even) << Name(format) << ' ' << code;
    }
  }
}

TEST(Round, TheLargestMagnitudeBecomesTheLargestCode) {
  for (const Format& format : CodedFormats()) {
    const FormatInfo& info = Info(format);
    for (float absmax = kSmallestAbsmax; std::isfinite(absmax); absmax *= 1.7f) {
      const Scale scale = ScaleFor(absmax, format);
      ASSERT_TRUE(std::isfinite(scale.inv) && scale.inv > 0 && scale.scale > 0) << absmax;
      EXPECT_EQ(CodeOf(absmax, scale.inv, format), info.max_code) << Name(format) << ' ' << absmax;
      EXPECT_EQ(CodeOf(-absmax, scale.inv, format), info.min_code) << Name(format) << ' ' << absmax;
    }
  }
}

// inv and scale carry a relative error of 2^-24 each, the two products another each: code * scale * inv is within
// 255 * 4 * 2^-24 < 2^-13 of the code, far from a half.
TEST(Round, ACodesValueRoundsToTheSameCode) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> exponent(-90.0f, 120.0f);
  for (const Format& format : CodedFormats()) {
    for (int i = 0; i < 200; ++i) {
      const Scale scale = ScaleFor(std::exp2(exponent(random)), format);
      for (int code = Info(format).min_code; code <= Info(format).max_code; ++code) {
        ASSERT_EQ(CodeOf(static_cast<float>(code) * scale.scale, scale.inv, format), code) << scale.scale;
      }
    }
  }
}

// |x * inv| <= qmax carries two roundings of 2^-24 relative: the code is within half a step and qmax * 2^-23 of
// x / scale.
TEST(Round, IsOffByHalfAStepAtMost) {
  std::mt19937 random(2);
  std::uniform_real_distribution<float> unit(-1.0f, 1.0f);
  for (const Format& format : CodedFormats()) {
    const FormatInfo& info = Info(format);
    const float absmax = 3.7f;
    const Scale scale = ScaleFor(absmax, format);
    for (int i = 0; i < 10000; ++i) {
      const float x = info.min_code < 0 ? unit(random) * absmax : std::fabs(unit(random)) * absmax;
      const double exact = static_cast<double>(x) * info.max_code / absmax;
      ASSERT_LE(std::fabs(CodeOf(x, scale.inv, format) - exact), 0.5 + info.max_code * 0x1p-23) << x;
    }
  }
}

TEST(Round, ValuesBeyondTheAbsmaxAreClamped) {
  for (const Format& format : CodedFormats()) {
    EXPECT_EQ(CodeOf(1e30f, 1.0f, format), Info(format).max_code);
    EXPECT_EQ(CodeOf(-1e30f, 1.0f, format), Info(format).min_code);
  }
}

TEST(Round, AGroupOfAlmostNothingIsZeros) {
  const float below = std::nextafter(kSmallestAbsmax, 0.0f);
  for (const float absmax : {0.0f, std::numeric_limits<float>::denorm_min(), below}) {
    for (const Format& format : CodedFormats()) {
      const Scale scale = ScaleFor(absmax, format);
      EXPECT_EQ(scale.inv, 0.0f);
      EXPECT_EQ(scale.scale, 0.0f);
      EXPECT_EQ(CodeOf(absmax, scale.inv, format), 0);
    }
  }
}

std::vector<float> Quantized(std::vector<float> values, Format format, float tensor_absmax) {
  float absmax = 0.0f;
  for (const float x : values) absmax = std::max(absmax, std::fabs(x));
  const Scale scale = ScaleFor(absmax, format, tensor_absmax);
  for (float& x : values) x = Rounded(x, scale.inv, format) * scale.scale;
  return values;
}

// A block with 7 at the top, by hand. floor: scale 1, 7 is clipped. ceil and even: scale 2, so 0.4 is 0.2 steps of 2.
TEST(Round, BlocksOfMxfp4ByHand) {
  const std::vector<float> block = {7.0f, -2.5f, 0.4f, 5.0f, 0.0f};
  EXPECT_EQ(Quantized(block, Format::kMxFp4, 7.0f), (std::vector<float>{6.0f, -2.0f, 0.5f, 4.0f, 0.0f}));
  EXPECT_EQ(Quantized(block, *ParseFormat("mxfp4:ceil"), 7.0f), (std::vector<float>{8.0f, -2.0f, 0.0f, 4.0f, 0.0f}));
  EXPECT_EQ(Quantized(block, *ParseFormat("mxfp4:rceil"), 7.0f), (std::vector<float>{8.0f, -2.0f, 0.0f, 4.0f, 0.0f}));
  EXPECT_EQ(Quantized(block, *ParseFormat("mxfp4:even"), 7.0f), (std::vector<float>{8.0f, -2.0f, 0.0f, 4.0f, 0.0f}));
}

// t = 1, block scale 1.125: 7 / 1.125 = 6.2 becomes 6, 2.5 / 1.125 = 2.2 becomes 2, 0.4 / 1.125 = 0.36 becomes 0.5.
TEST(Round, ABlockOfNvfp4ByHand) {
  EXPECT_EQ(Quantized({7.0f, -2.5f, 0.4f, 0.0f}, Format::kNvFp4, 2688.0f),
            (std::vector<float>{6.75f, -2.25f, 0.5625f, 0.0f}));
  EXPECT_EQ(Quantized({0.0f, -0.0f}, Format::kNvFp4, 2688.0f), (std::vector<float>{0.0f, 0.0f}));
  EXPECT_EQ(Quantized({0.0f}, Format::kNvFp4, 0.0f), std::vector<float>{0.0f});
}

TEST(Round, BlocksAtTheEndsOfF32) {
  const float largest = std::numeric_limits<float>::max(), smallest = std::numeric_limits<float>::denorm_min();
  for (const Format& format : SpelledFormats()) {
    const FormatInfo info = Info(format);
    if (IsInteger(format) || !HasCodes(format)) continue;
    for (const float x : {largest, 0x1p-99f, smallest}) {
      const float y = Quantized({x}, format, x)[0];
      // ceil, rceil and even may round the largest f32 up, and what is below the smallest scale may become zero.
      EXPECT_TRUE(y >= 0.0f && (std::isfinite(y) || x == largest)) << Name(format) << ' ' << x;
      if (x == 0x1p-99f && format.scale != ScaleType::kTwoLevelOne) {  // far below that one's smallest scale
        // 1 lies between two levels of normal2, 1.06 apart.
        EXPECT_NEAR(y / x, 1.0f, info.statistic == Statistic::kRootMeanSquare ? 0.53f : 0.26f) << Name(format);
      }
    }
    EXPECT_EQ(Quantized({-0.0f, 0.0f}, format, 0.0f)[1], 0.0f) << Name(format);
  }
}

using testing::ElementsAre;

std::vector<int16_t> Codes(const std::vector<float>& values, Format format, float* scale = nullptr) {
  std::vector<int16_t> codes(values.size());
  const float s = QuantizeGroup(values, format, codes);
  if (scale != nullptr) *scale = s;
  return codes;
}

TEST(Quantize, TiesGoToEven) {
  float scale = 0;
  EXPECT_THAT(Codes({7, 0.5f, 1.5f, -2.5f, 3.25f}, Format::kInt4, &scale), ElementsAre(7, 0, 2, -2, 3));
  EXPECT_EQ(scale, 1.0f);
}

TEST(Quantize, LargestBecomesTheLargestCode) {
  EXPECT_THAT(Codes({-3, 3, 1}, Format::kInt8), ElementsAre(-127, 127, 42));
  EXPECT_THAT(Codes({-3, 3, 1}, Format::kInt6), ElementsAre(-31, 31, 10));
  EXPECT_THAT(Codes({0, 3, 1}, Format::kU8), ElementsAre(0, 255, 85));
}

TEST(Quantize, AllZeros) {
  float scale = 1;
  EXPECT_THAT(Codes({0, -0.0f, 0x1p-101f, -0x1p-140f}, Format::kInt8, &scale), ElementsAre(0, 0, 0, 0));
  EXPECT_EQ(scale, 0.0f);
  EXPECT_THAT(Codes({}, Format::kInt8), ElementsAre());
}

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

}  // namespace tare::round_test
