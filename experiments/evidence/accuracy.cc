// SPDX-License-Identifier: Apache-2.0
#include "experiments/evidence/accuracy.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "quant/base/error.h"

namespace tare {
namespace {

constexpr double kZ = 1.959963984540054;  // the normal distribution's 97.5 % quantile

}  // namespace

Interval WilsonInterval(int64_t right, int64_t n) {
  TARE_CHECK(0 <= right && right <= n && n > 0);
  const auto count = static_cast<double>(n);
  const double p = static_cast<double>(right) / count, z2 = kZ * kZ / count;
  const double middle = p + z2 / 2, half = kZ * std::sqrt(p * (1 - p) / count + z2 / count / 4);
  // At the ends exactly: rounding would leave 1e-17.
  return {right == 0 ? 0.0 : (middle - half) / (1 + z2), right == n ? 1.0 : (middle + half) / (1 + z2)};
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
