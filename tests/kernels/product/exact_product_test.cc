// SPDX-License-Identifier: Apache-2.0
// Integers against plain loops on every target; tile_product_test covers shapes of all types.
#include "kernels/product/tile_product.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/support/each_target.h"

namespace tare::exact_product_test {
namespace {

// Extremes where pairs of products exceed 16 bits, and widths that end inside a vector; columns after n are left alone.
template <typename A>
void ExpectExact(ProductTypes types) {
  std::mt19937 random(1);
  for (const int m : {1, 4, 7}) {
    for (const int n : {1, 15, 16, 17, 64}) {
      for (const int k : {1, 4, 7, 130, 257, 520}) {
        const int64_t lda = (k + 3) / 4 * 4, ldb = 64, ldc = n + 1;
        std::vector<A> a(static_cast<size_t>(m * lda));
        std::vector<int8_t> b(static_cast<size_t>(lda * ldb), 0);
        for (A& x : a) x = random() % 2 ? std::numeric_limits<A>::max() : static_cast<A>(random());
        for (int64_t i = 0; i < k; ++i)
          for (int64_t j = 0; j < n; ++j)
            b[(i / 4 * ldb + j) * 4 + i % 4] = random() % 2 ? 127 : static_cast<int8_t>(random() % 255 - 127);
        OnEachTarget(kAllTargets, [&] {
          std::vector<int32_t> c(static_cast<size_t>(m * ldc), 77);
          ProductShape shape{.types = types, .m = m, .n = n, .k = k, .lda = lda, .ldb = ldb, .ldc = ldc};
          ExactProduct(shape, a.data(), b.data(), c.data());
          shape.store = ProductStore::kAdd;
          ExactProduct(shape, a.data(), b.data(), c.data());
          for (int64_t i = 0; i < m; ++i) {
            for (int64_t j = 0; j < n; ++j) {
              int32_t sum = 0;
              for (int64_t l = 0; l < k; ++l) sum += a[i * lda + l] * b[(l / 4 * ldb + j) * 4 + l % 4];
              ASSERT_EQ(c[i * ldc + j], 2 * sum) << m << ' ' << n << ' ' << k;
            }
            ASSERT_EQ(c[i * ldc + n], 77);
          }
        });
      }
    }
  }
}

TEST(ExactProduct, UnsignedTimesSigned) { ExpectExact<uint8_t>(ProductTypes::kU8S8); }
TEST(ExactProduct, SignedTimesSigned) { ExpectExact<int8_t>(ProductTypes::kS8S8); }

}  // namespace
}  // namespace tare::exact_product_test
