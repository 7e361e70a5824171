// SPDX-License-Identifier: Apache-2.0
// Code for code against the scalar rule, at every width around the vector widths.
#include "kernels/linear/token_codes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "quant/format/quantize.h"
#include "quant/format/round.h"
#include "tests/support/random_quantized.h"

namespace tare::token_codes_test {
namespace {

TEST(TokenCodes, EveryWidthIsTheRule) {
  for (const Format format : {Format::kInt8, Format::kInt6, Format::kInt4}) {
    for (size_t n = 1; n < 300; ++n) {
      std::vector<float> x = RandomNormal(n, static_cast<unsigned>(n));
      if (n > 3) x[n / 2] = -5.0f, x[n - 1] = 2.5f, x[0] = 0.0f;  // exact halves of steps among them
      const size_t padded = (n + 15) / 16 * 16;
      std::vector<uint8_t> codes(padded + 1, 77);
      std::vector<int16_t> expected(n);
      const float scale = QuantizeGroup(x, format, expected);
      ASSERT_EQ(ToTokenCodes(x.data(), static_cast<int64_t>(n), format, {}, codes.data(), static_cast<int64_t>(padded)),
                scale);
      for (size_t i = 0; i < n; ++i) ASSERT_EQ(int{codes[i]} - 128, expected[i]) << n << " " << i;
      for (size_t i = n; i < padded; ++i) ASSERT_EQ(codes[i], 128);
      ASSERT_EQ(codes[padded], 77);
    }
  }
}

// A static scale: values beyond the clip take the largest code.
TEST(TokenCodes, AClipIsTheRuleWithThatMagnitude) {
  for (const Format format : {Format::kInt8, Format::kInt6, Format::kInt4}) {
    for (const float clip : {0.0f, 0.7f, 1.5f, 100.0f}) {
      for (const size_t n : {1u, 15u, 64u, 131u, 200u}) {
        std::vector<float> x = RandomNormal(n, static_cast<unsigned>(n));
        x[n / 2] = 3e38f;
        std::vector<uint8_t> codes(208);
        const Scale scale = ScaleFor(clip, format);
        ASSERT_EQ(ToTokenCodes(x.data(), static_cast<int64_t>(n), format, clip, codes.data(), 208), scale.scale);
        for (size_t i = 0; i < n; ++i) ASSERT_EQ(int{codes[i]} - 128, CodeOf(x[i], scale.inv, format)) << n << " " << i;
      }
    }
  }
}

TEST(TokenCodes, ZerosAndTinyRowsAreCodeZero) {
  for (const float value : {0.0f, 0x1p-101f}) {
    const std::vector<float> x(37, value);
    std::vector<uint8_t> codes(48);
    EXPECT_EQ(ToTokenCodes(x.data(), 37, Format::kInt8, {}, codes.data(), 48), 0.0f);
    for (const uint8_t code : codes) EXPECT_EQ(code, 128);
  }
}

TEST(TokenCodes, NotFiniteIsSeenWhereverItStands) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    for (size_t at = 0; at < 150; ++at) {
      std::vector<float> x(150, 1.0f);
      x[at] = bad;
      std::vector<uint8_t> codes(160);
      EXPECT_TRUE(std::isnan(ToTokenCodes(x.data(), 150, Format::kInt8, {}, codes.data(), 160))) << at;
    }
  }
}

}  // namespace
}  // namespace tare::token_codes_test
