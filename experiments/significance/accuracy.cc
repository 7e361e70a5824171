// SPDX-License-Identifier: Apache-2.0
#include "experiments/significance/accuracy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "experiments/significance/distributions.h"
#include "quant/base/error.h"

namespace tare {
namespace {

constexpr double kZ = 1.959963984540054;  // the normal distribution's 97.5 % quantile

Interval Wilson(double p, double count, double z) {
  const double z2 = z * z / count;
  const double middle = p + z2 / 2, half = z * std::sqrt(p * (1 - p) / count + z2 / count / 4);
  // At the ends exactly: rounding would leave 1e-17.
  return {p == 0 ? 0.0 : (middle - half) / (1 + z2), p == 1 ? 1.0 : (middle + half) / (1 + z2)};
}

}  // namespace

double ShareError(double share, double n) { return n < 2 ? 0.0 : std::sqrt(share * (1 - share) / (n - 1)); }

Interval WilsonInterval(int64_t right, int64_t n) {
  TARE_CHECK(0 <= right && right <= n && n > 0);
  return Wilson(static_cast<double>(right) / static_cast<double>(n), static_cast<double>(n), kZ);
}

Interval ClusteredInterval(const std::vector<double>& right, const std::vector<double>& items) {
  TARE_CHECK(right.size() == items.size() && !items.empty());
  const auto clusters = static_cast<double>(items.size());
  const double n = std::accumulate(items.begin(), items.end(), 0.0);
  const double p = std::accumulate(right.begin(), right.end(), 0.0) / n;
  if (n == clusters) return Wilson(p, n, kZ);
  if (p == 0 || p == 1 || items.size() == 1) return Wilson(p, clusters, kZ);
  double squares = 0;
  for (size_t c = 0; c < items.size(); ++c) squares += std::pow(right[c] - p * items[c], 2);
  const double variance = squares * clusters / (clusters - 1) / (n * n);
  const double design = std::max(1.0, variance * n / (p * (1 - p)));
  return Wilson(p, n / design, StudentQuantile(0.975, static_cast<int>(items.size()) - 1));
}

void OutcomeChanges::Add(int difference) {
  ++n;
  gained += difference > 0;
  lost += difference < 0;
  sum += difference;
  squares += difference * difference;
}

double OutcomeChanges::StandardError() const {
  if (n < 2) return std::numeric_limits<double>::quiet_NaN();
  const auto count = static_cast<double>(n), total = static_cast<double>(sum);
  return std::sqrt((static_cast<double>(squares) - total * total / count) / (count - 1) / count);
}

double OutcomeChanges::MeanSquare() const { return static_cast<double>(squares + 2) / static_cast<double>(n + 2); }

Interval OutcomeChanges::BonettPrice() const {
  const auto count = static_cast<double>(n + 2);
  const double mean = static_cast<double>(sum) / count;
  const double half = kZ * std::sqrt((MeanSquare() - mean * mean) / count);
  const double most = squares > gained + lost ? 2 : 1;  // that a difference can be
  return {std::max(-most, mean - half), std::min(most, mean + half)};
}

OutcomeChanges ChangesOf(std::string_view before, std::string_view after) {
  TARE_CHECK(before.size() == after.size());
  OutcomeChanges changes;
  for (size_t i = 0; i < before.size(); ++i) changes.Add(after[i] - before[i]);
  return changes;
}

}  // namespace tare
