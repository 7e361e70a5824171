// SPDX-License-Identifier: Apache-2.0
#include "experiments/significance/power.h"

#include <algorithm>
#include <cmath>

#include "experiments/significance/distributions.h"
#include "quant/base/error.h"

namespace tare {
namespace {

double Z() { return NormalQuantile(0.975); }
double Y() { return NormalQuantile(0.8); }

double ItemsFor(double d, double mean_square) {
  const double q = std::max(mean_square, d);
  const double root = (Z() * std::sqrt(q) + Y() * std::sqrt(q - d * d)) / d;
  return root * root;
}

}  // namespace

// Fewer items are needed the larger d is: by halving between 0 and the largest difference there is.
double SmallestDetectable(double mean_square, int64_t items) {
  TARE_CHECK(mean_square > 0 && items > 0);
  double low = 0, high = 1;
  for (int i = 0; i < 60; ++i) {
    const double d = (low + high) / 2;
    (ItemsFor(d, mean_square) > static_cast<double>(items) ? low : high) = d;
  }
  return high;
}

double SmallestDetectable(double error) { return (Z() + Y()) * error; }

int64_t ItemsToShow(double d, double mean_square) {
  TARE_CHECK(d > 0 && d <= 1 && mean_square > 0);
  return static_cast<int64_t>(std::ceil(ItemsFor(d, mean_square)));
}

}  // namespace tare
