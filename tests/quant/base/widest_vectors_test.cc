// SPDX-License-Identifier: Apache-2.0
#include "quant/base/widest_vectors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace tare::widest_vectors_test {
namespace {

// A product and a sum that a fused multiply-add would round once.
TEST(WidestVectors, ResultsAreThoseOfThePlainLoop) {
  std::vector<float> x(77), y(77), expected(77);
  for (size_t i = 0; i < x.size(); ++i) x[i] = 1 + static_cast<float>(i) * 0x1p-13f;
  for (size_t i = 0; i < x.size(); ++i) expected[i] = std::max(x[i] * x[i] - 1, 0x1p-12f);
  int runs = 0;
  InWidestVectors([&]() TARE_INTO_CALLER {
    ++runs;
    for (size_t i = 0; i < x.size(); ++i) y[i] = std::max(x[i] * x[i] - 1, 0x1p-12f);
  });
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(y, expected);
}

TEST(WidestVectors, TemplatesGetTheBytesOfAVector) {
  std::vector<int> bytes;
  InWidestVectors([&]<int kBytes>() TARE_INTO_CALLER { bytes.push_back(kBytes); });
  ASSERT_EQ(bytes.size(), 1u);
#ifdef __x86_64__
  EXPECT_EQ(bytes[0], __builtin_cpu_supports("avx512f") ? 64 : __builtin_cpu_supports("avx2") ? 32 : 16);
#else
  EXPECT_EQ(bytes[0], 16);
#endif
}

}  // namespace
}  // namespace tare::widest_vectors_test
