// SPDX-License-Identifier: Apache-2.0
// Both paths of the tile product against plain loops: every type, tails, extremes where VNNI emulations saturate.
#include "kernels/product/tile_product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "quant/base/aligned.h"
#include "quant/base/float16.h"
#include "quant/base/message.h"
#include "tests/support/normal_floats.h"

namespace tare::tile_product_test {
namespace {

constexpr int kGuard = 77;  // fills C where nothing may be written

template <typename A>
struct Case {
  ProductShape shape;
  AlignedBuffer<A> a;
  AlignedBuffer<int8_t> b;
  std::vector<int8_t> plain_b;  // [k][n]
};

// Codes at the extremes half of the time.
template <typename A>
Case<A> RandomCodes(ProductTypes types, int m, int n, int k, std::mt19937& random) {
  Case<A> c;
  const int64_t lda = (k + 3) / 4 * 4 + 4, ldb = (n + 15) / 16 * 16;
  c.shape = {.types = types, .m = m, .n = n, .k = k, .lda = lda, .ldb = ldb, .ldc = ldb};
  c.a.Reset(m * lda);
  c.b.Reset((k + 3) / 4 * 4 * ldb);
  std::fill_n(c.b.data(), c.b.size(), int8_t{0});
  c.plain_b.resize(k * n);
  for (int64_t i = 0; i < m * lda; ++i)
    c.a[i] = random() % 2 ? std::numeric_limits<A>::max() : static_cast<A>(random());
  for (int i = 0; i < k; ++i)
    for (int j = 0; j < n; ++j)
      c.plain_b[i * n + j] = c.b[(i / 4 * ldb + j) * 4 + i % 4] =
          static_cast<int8_t>(random() % 2 ? 127 : static_cast<int>(random() % 255) - 127);
  return c;
}

template <typename A>
void ExpectExact(ProductTypes types) {
  std::mt19937 random(1);
  for (const int m : {1, 3, 4, 33, 48, 64}) {
    for (const int n : {1, 15, 16, 17, 32, 64}) {
      for (const int k : {1, 4, 7, 64, 130, 192}) {
        Case<A> c = RandomCodes<A>(types, m, n, k, random);
        std::vector<int32_t> got(m * c.shape.ldc, kGuard), exact(got), want(got);
        for (int i = 0; i < m; ++i)
          for (int j = 0; j < n; ++j) {
            int32_t sum = 0;
            for (int l = 0; l < k; ++l) sum += c.a[i * c.shape.lda + l] * c.plain_b[l * n + j];
            want[i * c.shape.ldc + j] = sum;
          }
        TileProduct(c.shape).Run(c.a.data(), c.b.data(), got.data());
        ExactProduct(c.shape, c.a.data(), c.b.data(), exact.data());
        ASSERT_EQ(got, want) << m << " x " << n << " x " << k;
        ASSERT_EQ(exact, want) << m << " x " << n << " x " << k;
        std::vector<int32_t> sdot(m * c.shape.ldc, kGuard);  // TileProduct prefers i8mm
        if (ArmTakes(ArmUnit::kSdot, c.shape)) {
          ArmProduct(ArmUnit::kSdot, c.shape, c.a.data(), c.b.data(), sdot.data());
          ASSERT_EQ(sdot, want) << m << " x " << n << " x " << k;
        }
        c.shape.store = ProductStore::kAdd;
        TileProduct(c.shape).Run(c.a.data(), c.b.data(), got.data());
        ExactProduct(c.shape, c.a.data(), c.b.data(), exact.data());
        for (int i = 0; i < m; ++i)
          for (int j = 0; j < n; ++j) want[i * c.shape.ldc + j] *= 2;
        ASSERT_EQ(got, want);
        ASSERT_EQ(exact, want);
        if (ArmTakes(ArmUnit::kSdot, c.shape)) {
          ArmProduct(ArmUnit::kSdot, c.shape, c.a.data(), c.b.data(), sdot.data());
          ASSERT_EQ(sdot, want);
        }
      }
    }
  }
}

TEST(TileProduct, U8S8IsExact) { ExpectExact<uint8_t>(ProductTypes::kU8S8); }
TEST(TileProduct, S8S8IsExact) { ExpectExact<int8_t>(ProductTypes::kS8S8); }

// |error| <= (k + 1) eps sum |a b| for any order of summation (Higham, Accuracy and Stability, section 3.1).
TEST(TileProduct, F32) {
  std::mt19937 random(2);
  NormalFloats normal;
  for (const int m : {1, 5, 64}) {
    for (const int n : {1, 17, 48, 256}) {
      for (const int k : {1, 31, 128}) {
        const ProductShape shape{.m = m, .n = n, .k = k, .lda = k + 3, .ldb = n + 5, .ldc = n + 1};
        std::vector<float> a(m * shape.lda), b(k * shape.ldb), c(m * shape.ldc, kGuard), exact(c);
        for (float& x : a) x = normal(random);
        for (float& x : b) x = normal(random);
        TileProduct(shape).Run(a.data(), b.data(), c.data());
        ExactProduct(shape, a.data(), b.data(), exact.data());
        for (int i = 0; i < m; ++i) {
          for (int j = 0; j < n; ++j) {
            double sum = 0, magnitude = 0;
            for (int l = 0; l < k; ++l) {
              const double product = double{a[i * shape.lda + l]} * b[l * shape.ldb + j];
              sum += product;
              magnitude += std::abs(product);
            }
            const double bound = (k + 1) * 0x1p-24 * magnitude;
            ASSERT_NEAR(c[i * shape.ldc + j], sum, bound) << m << " x " << n << " x " << k;
            ASSERT_NEAR(exact[i * shape.ldc + j], sum, bound);
          }
          ASSERT_EQ(c[i * shape.ldc + n], kGuard);
          ASSERT_EQ(exact[i * shape.ldc + n], kGuard);
        }
      }
    }
  }
}

// Small integers, which are exact; an odd k ends inside a group of two, where A holds something finite and B zeros.
TEST(TileProduct, Bf16) {
  const int m = 9, n = 20;
  for (const int k : {1, 6, 7, 65}) {
    const int lda = (k + 1) / 2 * 2;
    const ProductShape shape{.types = ProductTypes::kBf16, .m = m, .n = n, .k = k, .lda = lda, .ldb = 32, .ldc = 32};
    std::vector<uint16_t> a(m * lda, Bf16FromFloat(1e30f)), b((k + 1) / 2 * 32 * 2);
    std::vector<float> c(m * 32), exact(c);
    for (int i = 0; i < m; ++i)
      for (int l = 0; l < k; ++l) a[i * lda + l] = Bf16FromFloat(static_cast<float>((i * k + l) % 13 - 6));
    for (int l = 0; l < k; ++l)
      for (int j = 0; j < n; ++j)
        b[(l / 2 * 32 + j) * 2 + l % 2] = Bf16FromFloat(static_cast<float>((l * n + j) % 11 - 5));
    TileProduct(shape).Run(a.data(), b.data(), c.data());
    ExactProduct(shape, a.data(), b.data(), exact.data());
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < n; ++j) {
        float sum = 0;
        for (int l = 0; l < k; ++l) sum += static_cast<float>(((i * k + l) % 13 - 6) * ((l * n + j) % 11 - 5));
        ASSERT_EQ(c[i * 32 + j], sum) << "k " << k;
        ASSERT_EQ(exact[i * 32 + j], sum) << "k " << k;
      }
  }
}

// Tiles are configured for one product after another: whole tiles, parts of them, bf16, and whole tiles again.
TEST(TileProduct, OneAfterTheOther) {
  std::mt19937 random(3);
  const ProductScope scope;
  const auto whole = RandomCodes<uint8_t>(ProductTypes::kU8S8, 64, 64, 128, random);
  const auto part = RandomCodes<uint8_t>(ProductTypes::kU8S8, 20, 48, 72, random);
  std::vector<float> c(32);
  const std::vector<uint16_t> ones(64, Bf16FromFloat(1));
  for (int i = 0; i < 3; ++i) {
    for (const auto* one : {&whole, &part}) {
      std::vector<int32_t> got(one->shape.m * one->shape.ldc), want(got);
      TileProduct(one->shape).Run(one->a.data(), one->b.data(), got.data());
      ExactProduct(one->shape, one->a.data(), one->b.data(), want.data());
      ASSERT_EQ(got, want) << i;
    }
    TileProduct({.types = ProductTypes::kBf16, .m = 1, .n = 32, .k = 2, .lda = 2, .ldb = 32, .ldc = 32})
        .Run(ones.data(), ones.data(), c.data());
    ASSERT_EQ(c, std::vector<float>(32, 2.0f)) << i;
  }
}

TEST(TileProduct, RefusesEmptyShapes) { EXPECT_THROW(TileProduct({.m = 0, .n = 1, .k = 1}), Error); }

}  // namespace
}  // namespace tare::tile_product_test
