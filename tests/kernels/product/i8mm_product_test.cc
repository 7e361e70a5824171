// SPDX-License-Identifier: Apache-2.0
// The sums themselves: tile_product_test.cc, which meets this product where the processor has it.
#include "kernels/product/tile_product.h"

#include <gtest/gtest.h>

#ifdef __aarch64__
#include <sys/auxv.h>
#endif

namespace tare::i8mm_product_test {
namespace {

TEST(I8mmProduct, TakesBytesInEightsOfColumnsWhereTheProcessorHasIt) {
  bool has = false;
#ifdef __aarch64__
  has = (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0;
#endif
  const auto takes = [](ProductTypes types, int n) {
    return I8mmTakes({.types = types, .m = 1, .n = n, .k = 4, .lda = 4, .ldb = n, .ldc = n});
  };
  EXPECT_EQ(takes(ProductTypes::kU8S8, 8), has);
  EXPECT_EQ(takes(ProductTypes::kS8S8, 64), has);
  EXPECT_FALSE(takes(ProductTypes::kS8S8, 60));
  EXPECT_FALSE(takes(ProductTypes::kBf16, 64));
  EXPECT_FALSE(takes(ProductTypes::kF32, 64));
}

}  // namespace
}  // namespace tare::i8mm_product_test
