// SPDX-License-Identifier: Apache-2.0
// The stated bound, and that vectors give the bits of the scalar.
#include "kernels/attention/row_exp2.h"

#include <gtest/gtest.h>

#include <limits>

#include "kernels/attention/row_exp2-inl.h"

namespace tare::row_exp2_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

TEST(RowExp2, IsWithinItsBound) {
  for (float x = 0; x >= -126; x -= 0.001f) {
    const double want = std::exp2(double{x});
    ASSERT_NEAR(RowExp2(x), want, 4e-7 * want) << x;
  }
}

TEST(RowExp2, Ends) {
  EXPECT_EQ(RowExp2(0.0f), 1.0f);
  EXPECT_EQ(RowExp2(-1.0f), 0.5f);
  EXPECT_EQ(RowExp2(-126.0f), 0x1p-126f);
  for (const float x : {std::nextafter(-126.0f, -127.0f), -1e30f, -kInfinity, kNan}) EXPECT_EQ(RowExp2(x), 0.0f);
}

TEST(RowExp2, VectorsGiveTheSameBits) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<float> d;
  for (int i = 0; i <= 130000; ++i) {
    const float x = i == 0 ? kNan : i == 1 ? -kInfinity : -0.001f * static_cast<float>(i - 2);
    ASSERT_EQ(hn::GetLane(HWY_NAMESPACE::RowExp2(d, hn::Set(d, x))), RowExp2(x)) << x;
  }
}

}  // namespace
}  // namespace tare::row_exp2_test
