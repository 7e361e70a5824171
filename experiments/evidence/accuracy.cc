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

double OutcomeChanges::StandardError() const {
  if (n < 2) return std::numeric_limits<double>::quiet_NaN();
  const auto count = static_cast<double>(n), sum = static_cast<double>(gained - lost);
  return std::sqrt((static_cast<double>(gained + lost) - sum * sum / count) / (count - 1) / count);
}

Interval OutcomeChanges::BonettPrice() const {
  const auto count = static_cast<double>(n + 2);
  const double g = static_cast<double>(gained + 1) / count, l = static_cast<double>(lost + 1) / count;
  const double half = kZ * std::sqrt((g + l - (g - l) * (g - l)) / count);
  return {std::max(-1.0, g - l - half), std::min(1.0, g - l + half)};
}

OutcomeChanges ChangesOf(std::string_view before, std::string_view after) {
  TARE_CHECK(before.size() == after.size());
  OutcomeChanges changes{.n = static_cast<int64_t>(before.size())};
  for (size_t i = 0; i < before.size(); ++i) {
    changes.gained += after[i] > before[i];
    changes.lost += after[i] < before[i];
  }
  return changes;
}

}  // namespace tare
