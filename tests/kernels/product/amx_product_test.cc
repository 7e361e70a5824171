// SPDX-License-Identifier: Apache-2.0
// The sums themselves: tile_product_test.cc, which meets this product where the processor has it.
#include "kernels/product/tile_product.h"

#include <gtest/gtest.h>

namespace tare::amx_product_test {
namespace {

TEST(AmxProduct, TakesWholeTilesOfBytes) {
  const auto takes = [](ProductTypes types, int m, int n, int k) {
    return AmxTakes({.types = types, .m = m, .n = n, .k = k, .lda = k, .ldb = n, .ldc = n});
  };
  EXPECT_TRUE(takes(ProductTypes::kU8S8, 16, 32, 64));
  EXPECT_TRUE(takes(ProductTypes::kS8S8, 64, 64, 192));
  EXPECT_FALSE(takes(ProductTypes::kBf16, 16, 32, 64));
  EXPECT_FALSE(takes(ProductTypes::kF32, 16, 32, 64));
  EXPECT_FALSE(takes(ProductTypes::kU8S8, 8, 32, 64));
  EXPECT_FALSE(takes(ProductTypes::kU8S8, 16, 48, 64));
  EXPECT_FALSE(takes(ProductTypes::kU8S8, 16, 32, 96));
}

}  // namespace
}  // namespace tare::amx_product_test
