// SPDX-License-Identifier: Apache-2.0
// The error through second moments is that of the outputs themselves, by plain sums in double.
#include "quant/algorithms/output_error.h"

#include <gtest/gtest.h>

#include <cmath>

#include "quant/base/parallel.h"
#include "tests/support/random_quantized.h"

namespace tare::output_error_test {
namespace {

// X [tokens, in] and H = X^T X, rounded to f32 once.
struct Inputs {
  Inputs(int64_t tokens, int64_t channels, unsigned seed)
      : in(channels), x(RandomNormal(static_cast<size_t>(tokens * in), seed)), h(static_cast<size_t>(in * in)) {
    for (int64_t i = 0; i < in; ++i) {
      for (int64_t j = 0; j < in; ++j) {
        double sum = 0;
        for (int64_t t = 0; t < tokens; ++t) sum += double{x[t * in + i]} * double{x[t * in + j]};
        h[i * in + j] = static_cast<float>(sum);
      }
    }
  }
  int64_t in;
  std::vector<float> x, h;
};

double PlainError(const std::vector<float>& d, const Inputs& inputs) {
  double sum = 0;
  for (size_t row = 0; row < d.size(); row += static_cast<size_t>(inputs.in)) {
    for (size_t t = 0; t < inputs.x.size(); t += static_cast<size_t>(inputs.in)) {
      double y = 0;
      for (int64_t i = 0; i < inputs.in; ++i) y += double{d[row + i]} * double{inputs.x[t + i]};
      sum += y * y;
    }
  }
  return sum;
}

// One block, several with a short last one of rows and columns, and a single value.
TEST(OutputErrorTest, IsThatOfTheOutputs) {
  for (const auto& [rows, in, tokens] : {std::tuple{70, 300, 40}, {3, 512, 20}, {65, 16, 50}, {1, 1, 1}}) {
    const Inputs inputs(tokens, in, 3);
    const std::vector<float> d = RandomNormal(static_cast<size_t>(rows * in), 4);
    // Each product of the sum is off by the roundings of H and of `in` f32 additions.
    double magnitude = 0;
    for (size_t row = 0; row < d.size(); row += static_cast<size_t>(in)) {
      for (int64_t i = 0; i < in; ++i) {
        for (int64_t j = 0; j < in; ++j)
          magnitude += std::fabs(double{d[row + i]} * double{inputs.h[i * in + j]} * double{d[row + j]});
      }
    }
    EXPECT_NEAR(OutputError(d, in, inputs.h), PlainError(d, inputs), magnitude * std::ldexp(in + 2, -24)) << in;
  }
}

TEST(OutputErrorTest, SameBitsOnAnyNumberOfThreads) {
  const Inputs inputs(30, 300, 5);
  const std::vector<float> d = RandomNormal(200 * 300, 6);
  SetThreads(1);
  const double one = OutputError(d, 300, inputs.h);
  SetThreads(3);
  EXPECT_EQ(OutputError(d, 300, inputs.h), one);
  SetThreads(0);
}

}  // namespace
}  // namespace tare::output_error_test
