// SPDX-License-Identifier: Apache-2.0
// Against differences in double of the steps' formulas: with steps of 1e-5 off by 1e-9 of values of order 1, and f32
// rounds to 6e-8 of what is summed.
#include "experiments/gradient/rows_gradient.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "tests/support/random_quantized.h"

namespace tare::rows_gradient_test {
namespace {

constexpr double kStep = 1e-5;

// d of the sum of dy times a step's outputs by each input.
std::vector<double> Differences(const std::vector<float>& x,
                                const std::function<double(const std::vector<double>&)>& loss) {
  std::vector<double> at(x.begin(), x.end()), d;
  for (double& one : at) {
    const double before = one;
    one = before + kStep;
    const double high = loss(at);
    one = before - kStep;
    d.push_back((high - loss(at)) / (2 * kStep));
    one = before;
  }
  return d;
}

TEST(RowsGradient, RmsNorm) {
  for (const size_t n : {size_t{1}, size_t{3}, size_t{64}, size_t{77}}) {
    const std::vector<float> x = RandomNormal(n, 1), weight = RandomNormal(n, 2), dy = RandomNormal(n, 3);
    for (const bool weighted : {true, false}) {
      const auto loss = [&](const std::vector<double>& at) {
        double squares = 0, sum = 0;
        for (const double one : at) squares += one * one;
        for (size_t i = 0; i < n; ++i)
          sum += at[i] / std::sqrt(squares / static_cast<double>(n) + 0.1) * (weighted ? double{weight[i]} : 1.0) *
                 double{dy[i]};
        return sum;
      };
      const std::vector<double> expected = Differences(x, loss);
      std::vector<float> dx = dy;  // in place
      RmsNormGradient(x.data(), weighted ? weight.data() : nullptr, 0.1f, dx.data(), n, dx.data());
      for (size_t i = 0; i < n; ++i) EXPECT_NEAR(dx[i], expected[i], 2e-6) << n << " " << i;
    }
  }
}

TEST(RowsGradient, RowsOfZerosHaveAFiniteGradient) {
  const std::vector<float> x(8, 0.0f), dy(8, 1.0f);
  std::vector<float> dx(8);
  RmsNormGradient(x.data(), nullptr, 1e-6f, dy.data(), 8, dx.data());
  for (const float one : dx) EXPECT_NEAR(one, 1000, 0.01);
}

TEST(RowsGradient, SwiGlu) {
  constexpr size_t kN = 50;
  std::vector<float> gate = RandomNormal(kN, 4);
  const std::vector<float> up = RandomNormal(kN, 5), dy = RandomNormal(kN, 6);
  for (float& one : gate) one *= 3;
  const auto loss = [&](const std::vector<double>& g, const std::vector<double>& u) {
    double sum = 0;
    for (size_t i = 0; i < kN; ++i) sum += g[i] / (1 + std::exp(-g[i])) * u[i] * double{dy[i]};
    return sum;
  };
  const std::vector<double> gates(gate.begin(), gate.end()), ups(up.begin(), up.end());
  const std::vector<double> of_gate = Differences(gate, [&](const auto& at) { return loss(at, ups); }),
                            of_up = Differences(up, [&](const auto& at) { return loss(gates, at); });
  std::vector<float> dgate(kN), dup(kN);
  SwiGluGradient(gate.data(), up.data(), dy.data(), kN, dgate.data(), dup.data());
  for (size_t i = 0; i < kN; ++i) {
    EXPECT_NEAR(dgate[i], of_gate[i], 5e-6) << i;
    EXPECT_NEAR(dup[i], of_up[i], 5e-6) << i;
  }
}

TEST(RowsGradient, SwiGluOfGatesFarFromZero) {
  const std::vector<float> gate{-200, 200}, up{1, 1}, dy{1, 1};
  std::vector<float> dgate(2), dup(2);
  SwiGluGradient(gate.data(), up.data(), dy.data(), 2, dgate.data(), dup.data());
  EXPECT_NEAR(dgate[0], 0, 1e-30);
  EXPECT_EQ(dgate[1], 1);
  EXPECT_EQ(dup[1], 200);
}

}  // namespace
}  // namespace tare::rows_gradient_test
