// SPDX-License-Identifier: Apache-2.0
// Against sums in double: f32 rounds `in` times, each by at most 2^-24 of the sum of magnitudes.
#include "kernels/linear/projector.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "quant/base/float16.h"
#include "quant/base/parallel.h"
#include "tests/support/each_target.h"
#include "tests/support/random_quantized.h"

namespace tare::row_product_test {
namespace {

// A matrix of the type, and what its values stand for.
struct Stored {
  Stored(WeightType type, int64_t out, int64_t in) : values(RandomNormal(static_cast<size_t>(out * in), 1)) {
    for (float& x : values) {
      if (type == WeightType::kF32) continue;
      bits.push_back(type == WeightType::kBf16 ? Bf16FromFloat(x) : F16FromFloat(x));
      x = type == WeightType::kBf16 ? FloatFromBf16(bits.back()) : FloatFromF16(bits.back());
    }
    matrix = {bits.empty() ? static_cast<const void*>(values.data()) : bits.data(), type, out, in};
  }
  std::vector<float> values;
  std::vector<uint16_t> bits;
  DenseMatrix matrix;
};

TEST(RowProduct, EveryTypeAndShapeAgainstDouble) {
  for (const WeightType type : {WeightType::kF32, WeightType::kBf16, WeightType::kF16}) {
    for (const auto& [out, in] : {std::pair<int64_t, int64_t>{1, 1}, {65, 3}, {130, 64}, {7, 257}, {64, 1000}}) {
      const Stored w(type, out, in);
      const std::vector<float> x = RandomNormal(static_cast<size_t>(in), 2), bias = RandomNormal(out, 3);
      OnEachTarget(kAllTargets, [&] {
        std::vector<float> y(static_cast<size_t>(out + 1), -7.0f);
        for (const float* b : {bias.data(), static_cast<const float*>(nullptr)}) {
          RowProduct(w.matrix, Math::kF32, x.data(), b, y.data());
          for (int64_t n = 0; n < out; ++n) {
            double sum = b == nullptr ? 0 : b[n], size = std::abs(sum);
            for (int64_t i = 0; i < in; ++i) {
              const double product = double{w.values[n * in + i]} * x[i];
              sum += product;
              size += std::abs(product);
            }
            ASSERT_NEAR(y[n], sum, static_cast<double>(in + 1) * 0x1p-24 * size) << out << " " << in << " " << n;
          }
          ASSERT_EQ(y.back(), -7.0f);
        }
      });
    }
  }
}

// The bits of the same product of the values in f32, rounded before.
TEST(RowProduct, OfBf16FactorsValuesAreRoundedAsTheyAreRead) {
  constexpr int64_t kOut = 70, kIn = 259;
  const std::vector<float> x = RandomNormal(kIn, 2);
  for (const WeightType type : {WeightType::kF32, WeightType::kF16}) {
    Stored w(type, kOut, kIn);
    std::vector<float> rounded = w.values;
    for (float& value : rounded) value = FloatFromBf16(Bf16FromFloat(value));
    OnEachTarget(kAllTargets, [&] {
      std::vector<float> got(kOut), expected(kOut);
      RowProduct(w.matrix, Math::kBf16, x.data(), nullptr, got.data());
      RowProduct({rounded.data(), WeightType::kF32, kOut, kIn}, Math::kF32, x.data(), nullptr, expected.data());
      ASSERT_EQ(got, expected);
    });
  }
}

TEST(RowProduct, AnyNumberOfThreadsGivesTheSameBits) {
  const Stored w(WeightType::kBf16, 300, 333);
  const std::vector<float> x = RandomNormal(333, 2);
  std::vector<float> one(300), more(300);
  SetThreads(1);
  RowProduct(w.matrix, Math::kF32, x.data(), nullptr, one.data());
  SetThreads(3);
  RowProduct(w.matrix, Math::kF32, x.data(), nullptr, more.data());
  SetThreads(0);
  EXPECT_EQ(one, more);
}

}  // namespace
}  // namespace tare::row_product_test
