// SPDX-License-Identifier: Apache-2.0
#include "experiments/significance/paired_runs.h"

#include <cmath>
#include <map>
#include <numeric>

namespace tare {
namespace {

// Of terms that cancel, this share of their sizes may be rounding: 100 times the epsilon of double.
constexpr double kRounding = 2e-14;

double Sum(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

}  // namespace

PairedRuns ByWindow(std::span<const double> values, std::span<const size_t> windows) {
  std::map<size_t, std::pair<double, double>> sums;  // of a window that has some: values, and how many
  for (size_t i = 0; i < values.size(); ++i) sums[windows[i]].first += values[i], sums[windows[i]].second += 1;
  PairedRuns runs{.counts = {}, .sums = {{}}, .signs = {1}};
  for (const auto& [window, sum] : sums) runs.sums[0].push_back(sum.first), runs.counts.push_back(sum.second);
  return runs;
}

double Contrast(const PairedRuns& runs) {
  const double count = Sum(runs.counts);
  double value = 0;
  for (size_t r = 0; r < runs.sums.size(); ++r) {
    const double mean = Sum(runs.sums[r]) / count;
    value += runs.signs[r] * (runs.of_mean == OfMean::kItself ? mean : std::exp(mean));
  }
  return value;
}

std::optional<MeanError> PairedError(const PairedRuns& runs) {
  const size_t n = runs.Count();
  const double count = Sum(runs.counts);
  if (n < kFewestUnits || count == 0) return std::nullopt;
  std::vector<double> g(n);
  double squares = 0, sizes = 0;
  for (size_t r = 0; r < runs.sums.size(); ++r) {
    const double mean = Sum(runs.sums[r]) / count;
    const double slope = runs.signs[r] * (runs.of_mean == OfMean::kItself ? 1 : std::exp(mean));
    for (size_t i = 0; i < n; ++i) {
      g[i] += slope * (runs.sums[r][i] - mean * runs.counts[i]);
      sizes += std::abs(slope * runs.sums[r][i]) + std::abs(slope * mean * runs.counts[i]);
    }
  }
  for (double& x : g) x *= static_cast<double>(n) / count, squares += x * x;
  std::optional<MeanError> error = ErrorOfMean(g, runs.kind);
  if (std::sqrt(squares) <= kRounding * sizes / count) error->error = 0;
  return error;
}

}  // namespace tare
