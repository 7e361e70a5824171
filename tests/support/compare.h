// SPDX-License-Identifier: Apache-2.0
// Compares arrays of floats: within `tolerance` of the expected array's largest finite magnitude, with infinities and
// NaN in the same places. The message of a failure names the worst element.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <span>

namespace tare {

inline testing::AssertionResult AllNear(std::span<const float> actual, std::span<const float> expected,
                                        double tolerance) {
  if (actual.size() != expected.size())
    return testing::AssertionFailure() << "got " << actual.size() << " values, expected " << expected.size();
  double largest = 0, worst = 0;
  size_t at = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (std::isfinite(expected[i])) largest = std::max(largest, std::abs(double{expected[i]}));
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    const bool same = actual[i] == expected[i] || (std::isnan(actual[i]) && std::isnan(expected[i]));
    const double difference = same ? 0.0 : std::abs(double{actual[i]} - expected[i]);
    if (difference <= worst) continue;  // a NaN difference is not
    worst = std::isnan(difference) ? INFINITY : difference;
    at = i;
  }
  auto report = worst <= tolerance * largest ? testing::AssertionSuccess() : testing::AssertionFailure();
  if (expected.empty()) return report << "nothing to compare";
  return report << "worst at " << at << " of " << expected.size() << ": got " << actual[at] << ", expected "
                << expected[at] << ", off by " << worst / largest << " of the largest magnitude " << largest
                << ", allowed " << tolerance;
}

}  // namespace tare
