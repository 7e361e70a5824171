// SPDX-License-Identifier: Apache-2.0
#include "experiments/significance/paired_runs.h"

#include <cmath>
#include <numeric>

namespace tare {
namespace {

double Sum(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

}  // namespace

double Contrast(const PairedRuns& runs, const std::vector<double>& totals, double count) {
  double value = 0;
  for (size_t r = 0; r < totals.size(); ++r) {
    const double mean = totals[r] / count;
    value += runs.signs[r] * (runs.of_mean == OfMean::kItself ? mean : std::exp(mean));
  }
  return value;
}

double Contrast(const PairedRuns& runs) {
  std::vector<double> totals;
  for (const std::vector<double>& sums : runs.sums) totals.push_back(Sum(sums));
  return Contrast(runs, totals, Sum(runs.counts));
}

std::optional<double> PairedError(const PairedRuns& runs) {
  const size_t n = runs.Units();
  const double count = Sum(runs.counts);
  if (n < kFewestWindows || count == 0) return std::nullopt;
  std::vector<double> g(n);
  for (size_t r = 0; r < runs.sums.size(); ++r) {
    const double mean = Sum(runs.sums[r]) / count;
    const double slope = runs.signs[r] * (runs.of_mean == OfMean::kItself ? 1 : std::exp(mean));
    for (size_t i = 0; i < n; ++i) g[i] += slope * (runs.sums[r][i] - mean * runs.counts[i]);
  }
  double squares = 0;
  for (const double x : g) squares += x * x;
  return std::sqrt(squares * static_cast<double>(n) / static_cast<double>(n - 1)) / count;
}

}  // namespace tare
