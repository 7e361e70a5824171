// SPDX-License-Identifier: Apache-2.0
#include "experiments/evidence/paired_windows.h"

#include <cmath>
#include <numeric>

namespace tare {
namespace {

double Sum(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

}  // namespace

std::optional<double> PairedWindowError(const WindowLosses& before, const WindowLosses& after, OfMean f) {
  const size_t n = before.sums.size();
  const double tokens = Sum(before.counts);
  if (n < kFewestWindows || before.counts != after.counts || after.sums.size() != n || tokens == 0) return std::nullopt;
  const double a = Sum(before.sums) / tokens, b = Sum(after.sums) / tokens;
  const double slope_a = f == OfMean::kItself ? 1 : std::exp(a), slope_b = f == OfMean::kItself ? 1 : std::exp(b);
  double squares = 0;
  for (size_t i = 0; i < n; ++i) {
    const double m = before.counts[i];
    const double g = slope_b * (after.sums[i] - b * m) - slope_a * (before.sums[i] - a * m);
    squares += g * g;
  }
  return std::sqrt(squares * static_cast<double>(n) / static_cast<double>(n - 1)) / tokens;
}

}  // namespace tare
