// SPDX-License-Identifier: Apache-2.0
#include "quant/base/number.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace tare::number_test {
namespace {

TEST(ParseNumberTest, TakesAllOfTheTextOrNothing) {
  EXPECT_EQ(ParseNumber<int>("12"), 12);
  EXPECT_EQ(ParseNumber<int64_t>("-3"), -3);
  EXPECT_EQ(ParseNumber<double>("1e-3"), 1e-3);
  for (const char* text : {"", "x", "12x", " 12", "12 ", "+12", "1.5", "0x1"})
    EXPECT_FALSE(ParseNumber<int>(text)) << text;
}

TEST(ParseNumberTest, RefusesWhatTheTypeCannotHold) {
  EXPECT_EQ(ParseNumber<uint8_t>("255"), 255);
  EXPECT_FALSE(ParseNumber<uint8_t>("256"));
  EXPECT_FALSE(ParseNumber<uint8_t>("-1"));
  EXPECT_FALSE(ParseNumber<float>("1e39"));
}

}  // namespace
}  // namespace tare::number_test
