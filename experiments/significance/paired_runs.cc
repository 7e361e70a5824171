// SPDX-License-Identifier: Apache-2.0
#include "experiments/significance/paired_runs.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "experiments/significance/distributions.h"
#include "experiments/significance/draws.h"
#include "experiments/significance/token_divergence.h"
#include "quant/base/interrupt.h"

namespace tare {
namespace {

double Sum(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

// For plain means, all runs fold into one: the sum of all with their signs.
PairedRuns Folded(const PairedRuns& runs) {
  if (runs.of_mean != OfMean::kItself) return runs;
  PairedRuns folded{.counts = runs.counts, .sums = {std::vector<double>(runs.Units())}, .signs = {1}};
  for (size_t r = 0; r < runs.sums.size(); ++r) {
    for (size_t i = 0; i < runs.Units(); ++i) folded.sums[0][i] += runs.signs[r] * runs.sums[r][i];
  }
  return folded;
}

std::vector<double> DrawAll(const PairedRuns& runs, const Resampling& resampling) {
  Draws random(resampling.seed);
  std::vector<double> draws;
  std::vector<double> totals(runs.sums.size());
  for (int draw = 0; draw < resampling.draws; ++draw) {
    ThrowIfStopped();
    std::ranges::fill(totals, 0.0);
    double count = 0;
    for (size_t i = 0; i < runs.Units(); ++i) {
      const size_t unit = random.Below(runs.Units());
      count += runs.counts[unit];
      for (size_t r = 0; r < totals.size(); ++r) totals[r] += runs.sums[r][unit];
    }
    if (count > 0) draws.push_back(Contrast(runs, totals, count));
  }
  return draws;
}

// T_(i), [units].
std::vector<double> LeavingOneOut(const PairedRuns& runs) {
  std::vector<double> totals, rest(runs.sums.size()), values;
  for (const std::vector<double>& sums : runs.sums) totals.push_back(std::accumulate(sums.begin(), sums.end(), 0.0));
  const double count = std::accumulate(runs.counts.begin(), runs.counts.end(), 0.0);
  for (size_t i = 0; i < runs.Units(); ++i) {
    for (size_t r = 0; r < totals.size(); ++r) rest[r] = totals[r] - runs.sums[r][i];
    values.push_back(Contrast(runs, rest, count - runs.counts[i]));
  }
  return values;
}

// Empty if all are equal except for rounding.
std::optional<double> Acceleration(const std::vector<double>& left_out) {
  const double mean = std::accumulate(left_out.begin(), left_out.end(), 0.0) / static_cast<double>(left_out.size());
  double squares = 0, cubes = 0, largest = 0;
  for (const double value : left_out) {
    const double d = mean - value;
    squares += d * d;
    cubes += d * d * d;
    largest = std::max(largest, std::abs(value));
  }
  if (!(std::sqrt(squares) > 1e-13 * largest)) return std::nullopt;
  return cubes / (6 * std::pow(squares, 1.5));
}

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

std::optional<Interval> BcaInterval(const PairedRuns& runs, const Resampling& resampling) {
  if (runs.Units() < kFewestWindows) return std::nullopt;
  const PairedRuns folded = Folded(runs);
  const std::optional<double> a = Acceleration(LeavingOneOut(folded));
  if (!a) return std::nullopt;
  std::vector<double> draws = DrawAll(folded, resampling);
  std::ranges::sort(draws);
  const double value = Contrast(folded);
  const auto below = std::ranges::lower_bound(draws, value) - draws.begin();
  const auto at_most = std::ranges::upper_bound(draws, value) - draws.begin();
  const double share = static_cast<double>(below + at_most) / 2 / static_cast<double>(draws.size());
  if (!(share > 0 && share < 1)) return std::nullopt;
  const double z0 = NormalQuantile(share);
  const auto end = [&](double level) {
    const double z = z0 + NormalQuantile(level);
    return Quantile(draws, NormalBelow(z0 + z / (1 - *a * z)));
  };
  return Interval{end(0.025), end(0.975)};
}

}  // namespace tare
