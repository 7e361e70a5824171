// SPDX-License-Identifier: Apache-2.0
// W' against the definition: the least squares over both inputs among real weights, found from the tokens themselves.
#include "quant/algorithms/asymmetric_target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <Eigen/Dense>

#include <algorithm>
#include <limits>

#include "quant/algorithms/gptq.h"
#include "quant/base/error.h"
#include "tests/support/call.h"
#include "tests/support/random_quantized.h"

namespace tare::asymmetric_target_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int64_t kIn = 24, kTokens = 200;
constexpr double kDamping = 0.02;

// Inputs of the model as stored, and what they became after rounded layers; [tokens, in].
struct Inputs {
  Eigen::MatrixXd exact{kTokens, kIn}, seen{kTokens, kIn};
  std::vector<float> hessian = std::vector<float>(kIn * kIn), cross = hessian;

  Inputs() {
    const std::vector<float> noise = RandomNormal(2 * kTokens * kIn, 1);
    for (int64_t t = 0; t < kTokens; ++t) {
      for (int64_t i = 0; i < kIn; ++i) {
        exact(t, i) = (noise[t * kIn + i] + noise[t * kIn]) * (0.3 + static_cast<double>(i % 5));
        seen(t, i) = exact(t, i) * 0.9 + 0.2 * noise[(kTokens + t) * kIn + i] + 0.1;
      }
    }
    const Eigen::MatrixXd h = seen.transpose() * seen, c = (exact - seen).transpose() * seen;
    for (int64_t i = 0; i < kIn; ++i) {
      for (int64_t j = 0; j < kIn; ++j) {
        hessian[i * kIn + j] = j < i ? 1e30f : static_cast<float>(h(i, j));  // the lower triangle means nothing
        cross[i * kIn + j] = static_cast<float>(c(i, j));
      }
    }
  }
};

TEST(AsymmetricTarget, IsTheLeastSquaresOfBothInputs) {
  const Inputs x;
  const AsymmetricTarget target(x.hessian, x.cross, kIn, kDamping, "test");
  const double damping = kDamping * (x.seen.transpose() * x.seen).diagonal().mean();
  for (unsigned seed = 2; seed < 6; ++seed) {
    const std::vector<float> w = RandomNormal(kIn, seed);
    Eigen::VectorXd row(kIn);
    for (int64_t i = 0; i < kIn; ++i) row(i) = double{w[i]};
    // Tokens stacked over the damping: least squares by QR, without normal equations.
    Eigen::MatrixXd a(kTokens + kIn, kIn);
    Eigen::VectorXd b(kTokens + kIn);
    a << x.seen, std::sqrt(damping) * Eigen::MatrixXd::Identity(kIn, kIn);
    b << x.exact * row, std::sqrt(damping) * row;
    const Eigen::VectorXd best = a.colPivHouseholderQr().solve(b);
    std::vector<float> corrected = w;
    target.Correct(1, corrected.data());
    for (int64_t i = 0; i < kIn; ++i) EXPECT_NEAR(corrected[i], best(i), 1e-4 * best.norm()) << seed;
    EXPECT_GT((best - row).norm(), 0.05 * row.norm());  // there was something to correct
  }
}

// Rows together are the rows one by one.
TEST(AsymmetricTarget, CorrectsManyRows) {
  const Inputs x;
  const AsymmetricTarget target(x.hessian, x.cross, kIn, kDamping, "test");
  std::vector<float> together = RandomNormal(70 * kIn, 7), alone = together;
  target.Correct(70, together.data());
  for (int64_t row = 0; row < 70; ++row) target.Correct(1, &alone[row * kIn]);
  EXPECT_EQ(together, alone);
}

TEST(AsymmetricTarget, WithNothingLostNothingChanges) {
  Inputs x;
  std::ranges::fill(x.cross, 0.0f);
  const std::vector<float> w = RandomNormal(kIn, 2);
  std::vector<float> corrected = w;
  AsymmetricTarget(x.hessian, x.cross, kIn, kDamping, "test").Correct(1, corrected.data());
  EXPECT_EQ(corrected, w);
}

TEST(AsymmetricTarget, BadMomentsAreNamed) {
  Inputs x;
  x.cross[5] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(Call([&] { AsymmetricTarget(x.hessian, x.cross, kIn, kDamping, "layer 3"); }),
              ThrowsMessage<Error>(HasSubstr("layer 3")));
  EXPECT_THAT(Call([&] { AsymmetricTarget({1, 5, 5, 1}, {0, 0, 0, 0}, 2, kDamping, "layer 3"); }),
              ThrowsMessage<Error>(HasSubstr("not positive definite")));
}

}  // namespace
}  // namespace tare::asymmetric_target_test
