// SPDX-License-Identifier: Apache-2.0
// Tests the comparison itself: AllNear must fail when it should, and say where.
#include "tests/support/compare.h"

#include <limits>
#include <vector>

namespace tare::compare_test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(CompareTest, PassesWithinTolerance) {
  EXPECT_TRUE(AllNear(std::vector{1.0f, -4.0f}, std::vector{1.0f + 3e-5f, -4.0f}, 1e-5));
  EXPECT_TRUE(AllNear(std::vector{-kInf, kNan, 0.0f}, std::vector{-kInf, kNan, 0.0f}, 1e-5));
}

TEST(CompareTest, FailsBeyondItAndNamesTheWorst) {
  const testing::AssertionResult result =
      AllNear(std::vector{1.0f, 2.0f, -4.0f}, std::vector{1.00003f, 2.25f, -4.0f}, 1e-5);
  EXPECT_FALSE(result);
  EXPECT_NE(std::string(result.message()).find("worst at 1 of 3: got 2, expected 2.25"), std::string::npos)
      << result.message();
}

TEST(CompareTest, FailsOnMisplacedInfinityNanAndSize) {
  EXPECT_FALSE(AllNear(std::vector{0.0f, 1.0f}, std::vector{-kInf, 1.0f}, 1e-5));
  EXPECT_FALSE(AllNear(std::vector{-kInf, 1.0f}, std::vector{0.0f, 1.0f}, 1e-5));
  EXPECT_FALSE(AllNear(std::vector{kInf, 1.0f}, std::vector{-kInf, 1.0f}, 1e-5));
  EXPECT_FALSE(AllNear(std::vector{kNan, 1.0f}, std::vector{1.0f, 1.0f}, 1e-5));
  EXPECT_FALSE(AllNear(std::vector{1.0f, 1.0f}, std::vector{kNan, 1.0f}, 1e-5));
  EXPECT_FALSE(AllNear(std::vector{1.0f}, std::vector{1.0f, 1.0f}, 1e-5));
}

}  // namespace
}  // namespace tare::compare_test
