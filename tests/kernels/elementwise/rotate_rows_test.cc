// SPDX-License-Identifier: Apache-2.0
// Rotations in f32 against those in double, at every step that vectors take and at misaligned addresses.
#include "kernels/elementwise/rows.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/each_target.h"
#include "tests/support/random_quantized.h"

namespace tare::rotate_rows_test {
namespace {

constexpr int64_t kRows = 3;

// The header's bound; exact: rotated in double, sums: of the magnitudes of each run.
void ExpectNear(const Hadamard& rotation, const float* exact, const float* x, const float* got) {
  const int64_t n = rotation.size(), run = rotation.run();
  const double roundings =
      static_cast<double>(rotation.base()) + std::log2(static_cast<double>(run / rotation.base())) + 3;
  for (int64_t begin = 0; begin < n; begin += run) {
    double sum = 0;
    for (int64_t i = begin; i < begin + run; ++i) sum += std::abs(double{x[i]});
    const double bound = roundings * 0x1p-24 * sum / std::sqrt(static_cast<double>(run));
    for (int64_t i = begin; i < begin + run; ++i)
      ASSERT_NEAR(got[i], exact[i], bound) << n << " in runs of " << run << ", channel " << i;
  }
}

TEST(RotateRows, SumsAreThoseInDouble) {
  OnEachTarget(kAllTargets, [] {
    for (const auto& [n, run] : {std::pair<int64_t, int64_t>{1, 1},
                                 {2, 2},
                                 {4, 4},
                                 {8, 8},
                                 {12, 12},
                                 {16, 2},
                                 {24, 4},
                                 {48, 16},
                                 {56, 56},
                                 {64, 64},
                                 {80, 20},
                                 {96, 96},
                                 {128, 32},
                                 {344, 344},
                                 {1024, 1024}}) {
      const Hadamard rotation(n, 5, run);
      for (size_t shift = 0; shift < 3; ++shift) {
        const std::vector<float> values = RandomNormal(static_cast<size_t>(kRows * n) + shift, 1);
        const float* const x = values.data() + shift;
        std::vector<float> memory(values.size() + 1, 12345.0f), exact(static_cast<size_t>(n));
        float* const y = memory.data() + shift;
        RotateRows(rotation, x, kRows, y);
        EXPECT_EQ(memory.back(), 12345.0f) << "what lies behind";
        for (int64_t row = 0; row < kRows; ++row) {
          rotation.Rotate(x + row * n, exact.data());
          ExpectNear(rotation, exact.data(), x + row * n, y + row * n);
        }
        std::vector<float> one(x, x + n);
        RotateRow(rotation, one.data(), one.data());
        EXPECT_EQ(one, std::vector<float>(y, y + n)) << "in place";
        rotation.RotateBack(x, exact.data());
        RotateRowBack(rotation, x, one.data());
        ExpectNear(rotation, exact.data(), x, one.data());
      }
    }
  });
}

}  // namespace
}  // namespace tare::rotate_rows_test
