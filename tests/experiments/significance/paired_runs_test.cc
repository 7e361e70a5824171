// SPDX-License-Identifier: Apache-2.0
#include "experiments/significance/paired_runs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace tare {
namespace {

// Five windows of ten tokens; per token the loss grows by 0.1 0.2 0.3 0.4 0.5, mean 0.3, s^2 = 0.025.
const WindowLosses kBefore{{10, 50, 20, 90, 30}, {10, 10, 10, 10, 10}};
const WindowLosses kAfter{{11, 52, 23, 94, 35}, {10, 10, 10, 10, 10}};

PairedRuns Change(const WindowLosses& before, const WindowLosses& after, OfMean of_mean) {
  return {.counts = before.counts, .sums = {before.sums, after.sums}, .signs = {-1, 1}, .of_mean = of_mean};
}

TEST(PairedRuns, WhatBothRunsFindHardCancels) {
  EXPECT_NEAR(PairedError(Change(kBefore, kAfter, OfMean::kItself)).value(), std::sqrt(0.025 / 5), 1e-12);
  EXPECT_EQ(PairedError(Change(kBefore, kBefore, OfMean::kItself)), 0.0);
}

// Of exp(mean), against the spread of what is drawn again from the windows with replacement: its own error is below 2
// %.
TEST(PairedRuns, PerplexityByTheDeltaMethod) {
  WindowLosses before, after;
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal;
  for (int i = 0; i < 200; ++i) {
    const double tokens = i % 4 == 0 ? 20 : 100, loss = 3 + 0.3 * normal(random);
    before.counts.push_back(tokens);
    before.sums.push_back(tokens * loss);
    after.sums.push_back(tokens * (loss + 0.02 + 0.02 * normal(random)));
  }
  after.counts = before.counts;
  double sum = 0, squares = 0;
  constexpr int kDraws = 4000;
  for (int draw = 0; draw < kDraws; ++draw) {
    double a = 0, b = 0, m = 0;
    for (size_t i = 0; i < 200; ++i) {
      const size_t w = random() % 200;
      a += before.sums[w];
      b += after.sums[w];
      m += before.counts[w];
    }
    const double change = std::exp(b / m) - std::exp(a / m);
    sum += change / kDraws;
    squares += change * change / kDraws;
  }
  const double spread = std::sqrt(squares - sum * sum);
  EXPECT_NEAR(PairedError(Change(before, after, OfMean::kExponential)).value() / spread, 1, 0.06);
}

TEST(PairedRuns, TheValueIsOfAllWindows) {
  EXPECT_NEAR(Contrast(Change(kBefore, kAfter, OfMean::kItself)), 0.3, 1e-12);
  EXPECT_NEAR(Contrast(Change(kBefore, kAfter, OfMean::kExponential)), std::exp(4.3) - std::exp(4), 1e-12);
}

// One model changes by 0.1 .. 0.5 per token and the other by 0 1 0 1 0.5: less it, 0.2 on the average of
// (-0.1, 0.8, -0.3, 0.6, 0), s^2 = (0.09 + 0.36 + 0.25 + 0.16 + 0.04) / 4.
TEST(PairedRuns, DifferencesOfDrops) {
  const std::vector<double> other{5, 5, 5, 5, 5}, moved{5, 15, 5, 15, 10};
  const PairedRuns runs{
      .counts = kBefore.counts, .sums = {kBefore.sums, kAfter.sums, other, moved}, .signs = {1, -1, -1, 1}};
  EXPECT_NEAR(Contrast(runs), 0.2, 1e-12);
  EXPECT_NEAR(PairedError(runs).value(), std::sqrt(0.9 / 4 / 5), 1e-12);
}

TEST(PairedRuns, OfTooFewThereIsNoError) {
  EXPECT_FALSE(PairedError(Change({{1, 2, 3, 4}, {1, 1, 1, 1}}, {{2, 2, 2, 2}, {1, 1, 1, 1}}, OfMean::kItself)));
  EXPECT_FALSE(PairedError(Change({}, {}, OfMean::kItself)));
}

}  // namespace
}  // namespace tare
