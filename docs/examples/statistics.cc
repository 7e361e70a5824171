// SPDX-License-Identifier: Apache-2.0
// Outliers of hidden states that one channel dominates: the largest values with their places, quantiles, kurtosis.
#include <cstdio>

#include <tare/quant/observe/outliers.h>
#include <tare/quant/observe/row_measures.h>
#include "random_tensor.h"

int main() {
  constexpr int64_t kTokens = 100, kWidth = 256, kMassive = 17;
  std::vector<float> x = RandomTensor(kTokens * kWidth);
  for (int64_t t = 0; t < kTokens; ++t) x[t * kWidth + kMassive] *= 100;

  tare::OutlierStatistics outliers;
  double kurtosis = 0;  // the mean over tokens
  for (int64_t t = 0; t < kTokens; ++t) {
    const std::span<const float> row(x.data() + t * kWidth, kWidth);
    outliers.Add(row, {.row = t});
    kurtosis += tare::MomentsOf(row, tare::SumPowers(row), row.size()).Kurtosis() / kTokens;
  }
  const tare::TopValue largest = outliers.top.Sorted().front();
  std::printf("largest %.1f in channel %d of token %d, %.0f times the median; kurtosis %.0f\n", largest.value,
              static_cast<int>(largest.place.column), static_cast<int>(largest.place.row),
              outliers.absmax() / outliers.Quantile(0.5), kurtosis);
  return largest.place.column == kMassive ? 0 : 1;
}
