// SPDX-License-Identifier: Apache-2.0
// For the target that tests are compiled for; tests of its users cover all targets.
#include "kernels/decode/ordered_sum-inl.h"

#include <gtest/gtest.h>

namespace tare::ordered_sum_test {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Values of which another order has other bits: 2^24 + 1 is not a float.
template <int kCapped>
float SumInVectorsOf() {
  using D = hn::CappedTag<float, kCapped>;
  constexpr D d;
  constexpr int kLanes = HWY_MAX_LANES_D(D);
  HWY_ALIGN float x[16] = {0x1p24f, 1, 0, 0, 1, 0, 0, 0, -0x1p24f, 1, 0, 0, 1, 0, 0, 0x1p-3f};
  hn::Vec<D> vectors[16 / kLanes];
  for (int i = 0; i < 16 / kLanes; ++i) vectors[i] = hn::Load(d, x + i * kLanes);
  return HWY_NAMESPACE::SumOfSixteen(d, vectors);
}

TEST(OrderedSum, DoesNotDependOnTheWidthOfVectors) {
  // 0 2 0 0, 2 0 0 1/8; 2 2 0 1/8; 2 2 + 1/8
  EXPECT_EQ(SumInVectorsOf<16>(), 4.125f);
  EXPECT_EQ(SumInVectorsOf<4>(), 4.125f);
  EXPECT_EQ(SumInVectorsOf<2>(), 4.125f);
  EXPECT_EQ(SumInVectorsOf<1>(), 4.125f);
}

}  // namespace
}  // namespace tare::ordered_sum_test
