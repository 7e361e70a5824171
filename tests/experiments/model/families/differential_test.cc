// SPDX-License-Identifier: Apache-2.0
// Parts shared by the families of V1; diffllama_test.cc and parity_test.cc compare their lambda vectors and forward
// passes with golden data.
#include "experiments/model/families/differential.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tare::differential_test {
namespace {

// arXiv 2410.05258, section 2.1: 0.2 in the first layer, towards 0.8.
TEST(DifferentialTest, LambdaInitOfALayer) {
  EXPECT_FLOAT_EQ(LambdaInit(0), 0.2f);
  EXPECT_FLOAT_EQ(LambdaInit(1), 0.35550907f);
  EXPECT_FLOAT_EQ(LambdaInit(2), 0.47071302f);
  EXPECT_FLOAT_EQ(LambdaInit(27), 0.79981794f);
}

// Vectors whose products are known; two exponentials in f32.
TEST(DifferentialTest, LambdaFollowsFromItsVectors) {
  LayerWeights w;
  w.vectors[kLambdaQ1] = {1, 2}, w.vectors[kLambdaK1] = {0.5f, -0.5f};
  w.vectors[kLambdaQ2] = {1, 0}, w.vectors[kLambdaK2] = {-1, 7};
  SetLambda(w, 0.25f);
  EXPECT_FLOAT_EQ(w.lambda.at(0), static_cast<float>(std::exp(-0.5) - std::exp(-1.0) + 0.25));
  EXPECT_EQ(w.lambda_init, 0.25f);
}

}  // namespace
}  // namespace tare::differential_test
