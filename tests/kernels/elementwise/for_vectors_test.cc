// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "hwy/highway.h"
#include "kernels/elementwise/for_vectors-inl.h"

namespace tare::for_vectors_test {
namespace {

// Every value once and in order, no vector but the last with fewer lanes than there are, none without any.
TEST(ForVectors, CoversARow) {
  const size_t lanes = hwy::HWY_NAMESPACE::Lanes(HWY_NAMESPACE::D());
  for (size_t n = 0; n <= 3 * lanes + 1; ++n) {
    size_t next = 0;
    HWY_NAMESPACE::ForVectors(n, [&](size_t i, size_t count) {
      EXPECT_EQ(i, next);
      EXPECT_GT(count, 0u);
      EXPECT_EQ(count, std::min(lanes, n - i));
      next += count;
    });
    EXPECT_EQ(next, n);
  }
}

}  // namespace
}  // namespace tare::for_vectors_test
