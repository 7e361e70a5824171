// SPDX-License-Identifier: Apache-2.0
// The sums themselves: tile_product_test.cc, which meets these products where the processor has them.
#include "kernels/product/tile_product.h"

#include <gtest/gtest.h>

#ifdef __aarch64__
#include <sys/auxv.h>
#endif

namespace tare::arm_product_test {
namespace {

void ExpectTakesBytesInEights(ArmUnit unit, bool has) {
  const auto of = [&](ProductTypes types, int n) {
    return ArmTakes(unit, {.types = types, .m = 1, .n = n, .k = 4, .lda = 4, .ldb = n, .ldc = n});
  };
  EXPECT_EQ(of(ProductTypes::kU8S8, 8), has);
  EXPECT_EQ(of(ProductTypes::kS8S8, 64), has);
  EXPECT_FALSE(of(ProductTypes::kS8S8, 60));
  EXPECT_FALSE(of(ProductTypes::kBf16, 64));
  EXPECT_FALSE(of(ProductTypes::kF32, 64));
}

TEST(ArmProduct, TakesBytesInEightsOfColumnsWhereTheProcessorHasIt) {
  bool i8mm = false, sdot = false;
#ifdef __aarch64__
  i8mm = (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0;
  sdot = (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
#endif
  ExpectTakesBytesInEights(ArmUnit::kI8mm, i8mm);
  ExpectTakesBytesInEights(ArmUnit::kSdot, sdot);
}

}  // namespace
}  // namespace tare::arm_product_test
