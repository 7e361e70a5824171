// SPDX-License-Identifier: Apache-2.0
// Against sums in double: of rows or outputs, each rounded product and sum to 2^-24 of the terms' sizes.
#include "experiments/gradient/linear_gradient.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/support/random_quantized.h"

namespace tare {
namespace {

struct Sums {
  double value = 0, size = 0;
};

// The sum of a[i] b[i] over n of each, so far apart.
Sums Dot(const float* a, int64_t a_stride, const float* b, int64_t b_stride, int64_t n) {
  Sums sums;
  for (int64_t i = 0; i < n; ++i) {
    const double product = double{a[i * a_stride]} * double{b[i * b_stride]};
    sums.value += product;
    sums.size += std::abs(product);
  }
  return sums;
}

TEST(LinearGradient, OfEveryShapeAndOfBatchesThatShrink) {
  LinearGradientMemory memory;
  for (const auto& [out, in] : {std::pair{int64_t{1}, int64_t{1}}, {5, 40}, {70, 33}, {128, 64}}) {
    const std::vector<float> w = RandomNormal(static_cast<size_t>(out * in), 1);
    LinearGradient linear({.data = w.data(), .type = WeightType::kF32, .out = out, .in = in});
    std::vector<Sums> expected(w.size());
    for (const int64_t rows : {200, 64, 3, 1}) {
      const auto padded = static_cast<size_t>(PaddedRows(rows));
      const std::vector<float> x = RandomNormal(padded * static_cast<size_t>(in), 2),
                               dy = RandomNormal(padded * static_cast<size_t>(out), 3);  // surplus rows count nowhere
      std::vector<float> dx(padded * static_cast<size_t>(in));
      linear.Add(dy.data(), x.data(), rows, dx.data(), memory);
      for (int64_t o = 0; o < out; ++o) {
        for (int64_t i = 0; i < in; ++i) {
          const Sums sums = Dot(dy.data() + o, out, x.data() + i, in, rows);
          Sums& all = expected[static_cast<size_t>(o * in + i)];
          all.value += sums.value;
          all.size += sums.size;
          const double bound = static_cast<double>(rows + 4) * 0x1p-24 * all.size;
          ASSERT_NEAR(linear.gradient()[o * in + i], all.value, bound) << out << " x " << in << ", " << rows;
        }
      }
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t i = 0; i < in; ++i) {
          const Sums sums = Dot(dy.data() + r * out, 1, w.data() + i, in, out);
          ASSERT_NEAR(dx[r * in + i], sums.value, static_cast<double>(out) * 0x1p-24 * sums.size);
        }
      }
    }
    linear.Clear();
    EXPECT_EQ(linear.gradient()[0], 0);
  }
}

TEST(LinearGradient, InputsAreOfTheWeightAsItIsNow) {
  LinearGradientMemory memory;
  const float one = 1;
  LinearGradient linear({.data = &one, .type = WeightType::kF32, .out = 1, .in = 1});
  linear.weight()[0] = 3;
  const std::vector<float> ones(64, 1.0f);
  std::vector<float> dx(64);
  linear.Add(ones.data(), ones.data(), 1, dx.data(), memory);
  EXPECT_EQ(dx[0], 3);
  EXPECT_EQ(static_cast<const float*>(linear.Matrix().data)[0], 3);
}

}  // namespace
}  // namespace tare
