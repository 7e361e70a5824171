// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/squared_error.h"

#include <gtest/gtest.h>

#include <vector>

namespace tare::squared_error_test {
namespace {

// Whole numbers, so that every order of additions gives the same sums.
TEST(SquaredError, OfEveryLength) {
  for (const size_t n : {0, 1, 7, 8, 9, 16, 37}) {
    std::vector<float> values, rounded;
    double error = 0, size = 0;
    for (size_t i = 0; i < n; ++i) {
      values.push_back(static_cast<float>(i * i));
      rounded.push_back(static_cast<float>(i * i + i));
      error += static_cast<double>(i * i);
      size += static_cast<double>(i * i * i * i);
    }
    const Squares squares = SquaresOf(values, rounded);
    EXPECT_EQ(squares.error, error) << n;
    EXPECT_EQ(squares.size, size) << n;
  }
}

}  // namespace
}  // namespace tare::squared_error_test
