// SPDX-License-Identifier: Apache-2.0
#include "experiments/significance/mean_error.h"

#include <cmath>
#include <numbers>
#include <numeric>

#include "quant/base/message.h"

namespace tare {
namespace {

// Thirty lognormal values (deviation of the logarithm 1) show a third of their skewness on the average, thirty
// exponential ones two thirds. A quarter more keeps both within 0.94 to 0.96 (tests/experiments/calibration_test.cc).
constexpr double kUnseenSkewness = 1.25;

double SquaresOfWaves(std::span<const double> units, int waves) {
  const auto n = static_cast<double>(units.size());
  double squares = 0;
  for (int j = 1; j <= waves; ++j) {
    double wave = 0;
    for (size_t t = 0; t < units.size(); ++t)
      wave += units[t] * std::cos(std::numbers::pi * j * (static_cast<double>(t) + 0.5) / n);
    squares += wave * wave * 2 / n;
  }
  return squares;
}

// m1 and m2 at the end of the interval.
std::pair<double, double> MeansOfRoots(int degrees) {
  const double B = degrees, c = StudentQuantile(0.975, degrees), scale = std::sqrt((B + c * c) / 2);
  const double half = std::lgamma((B + 1) / 2);
  return {std::exp(std::lgamma((B + 2) / 2) - half) / scale, std::exp(std::lgamma(B / 2) - half) * scale};
}

// Sums of powers of deviations; skewness with the usual correction of its bias.
struct Moments {
  double squares = 0, cubes = 0;

  double Skewness(double n) const {
    return squares == 0 ? 0 : cubes / n / std::pow(squares / n, 1.5) * std::sqrt(n * (n - 1)) / (n - 2);
  }
};

// This share of the sizes of terms that cancel may be rounding: 100 times the epsilon of double.
constexpr double kRounding = 2e-14;

double Sum(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

}  // namespace

std::string FewUnitsText(size_t units, Units kind) {
  const bool of_text = kind == Units::kOfText;
  return Formatted("{} {}{} too few for an error: expected {}; try {}", units, of_text ? "window" : "sample",
                   units == 1 ? " is" : "s are", kFewestUnits,
                   of_text ? "more tokens or a shorter --window" : "more items");
}

std::optional<MeanError> ErrorOfMean(std::span<const double> units, Units kind) {
  if (units.size() < kFewestUnits) return std::nullopt;
  const auto n = static_cast<double>(units.size());
  const double mean = std::accumulate(units.begin(), units.end(), 0.0) / n;
  std::vector<double> deviations;
  Moments moments;
  for (const double x : units) {
    const double d = deviations.emplace_back(x - mean);
    moments.squares += d * d, moments.cubes += d * d * d;
  }
  const bool of_text = kind == Units::kOfText;
  const int waves = static_cast<int>(of_text ? std::min(n / 10, 0.4 * std::cbrt(n * n)) : n - 1);
  const double variance = of_text ? (1 + 12 * std::pow(waves / n, 2)) * SquaresOfWaves(deviations, waves) / waves
                                  : moments.squares / (n - 1);
  const double k = kUnseenSkewness * moments.Skewness(n) / std::sqrt(n);
  const auto [m1, m2] = MeansOfRoots(waves);
  return MeanError{.error = std::sqrt(variance / n), .degrees = waves, .bend = k * m1 / 3, .lag = k * m2 / 6};
}

double MeanError::P(double mean) const {
  TARE_CHECK(error > 0);
  const double t = mean / error, bent = bend * t;
  return StudentTwoSided(t * (1 + bent + bent * bent / 3) + lag, degrees);
}

// The root T of h(T) = +-c: with r the cube root of 1 + 3 a (h - b), T = (r - 1) / a = 3 (h - b) / (r^2 + r + 1).
Interval MeanError::Around(double mean, double share) const {
  TARE_CHECK(error > 0);
  const double c = StudentQuantile((1 + share) / 2, degrees);
  const auto root = [&](double h) {
    const double r = std::cbrt(1 + 3 * bend * (h - lag));
    return 3 * (h - lag) / (r * r + r + 1);
  };
  return {mean - error * root(c), mean - error * root(-c)};
}

double MeanError::SmallestDetectable() const {
  return (StudentQuantile(0.975, degrees) + StudentQuantile(0.8, degrees)) * error;
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

SampleMean MeanOfSamples(std::span<const double> samples) {
  TARE_CHECK(samples.size() >= 2);
  const auto n = static_cast<double>(samples.size());
  SampleMean of;
  for (const double x : samples) of.mean += x / n;
  double squares = 0;
  for (const double x : samples) squares += (x - of.mean) * (x - of.mean);
  of.deviation = std::sqrt(squares / (n - 1));
  if (of.deviation <= 1e-12 * std::abs(of.mean)) of.deviation = 0;  // rounding of equal samples
  const double half = StudentQuantile(0.975, static_cast<int>(n) - 1) * of.deviation / std::sqrt(n);
  of.interval = {of.mean - half, of.mean + half};
  return of;
}

}  // namespace tare
