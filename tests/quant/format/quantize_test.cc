// SPDX-License-Identifier: Apache-2.0
// The scalar quantizer by hand: ties, zeros, tiny groups, values that are not finite.
#include "quant/format/quantize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "quant/base/message.h"
#include "tests/support/call.h"

namespace tare::quantize_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

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

TEST(Quantize, RefusesValuesWithoutACode) {
  EXPECT_THAT(Call([] { Codes({1, std::numeric_limits<float>::infinity()}, Format::kInt8); }),
              ThrowsMessage<Error>(HasSubstr("inf at 1")));
  EXPECT_THAT(Call([] { Codes({std::numeric_limits<float>::quiet_NaN()}, Format::kInt8); }),
              ThrowsMessage<Error>(HasSubstr("at 0")));
  EXPECT_THAT(Call([] { Codes({-1}, Format::kU8); }), ThrowsMessage<Error>(HasSubstr("below 0")));
  EXPECT_THAT(Call([] { Codes({1}, Format::kF32); }), ThrowsMessage<Error>(HasSubstr("f32")));
}

}  // namespace
}  // namespace tare::quantize_test
