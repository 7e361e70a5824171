// SPDX-License-Identifier: Apache-2.0
#include "experiments/significance/p_values.h"

#include <algorithm>
#include <cmath>
#include <numeric>

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

double McNemarMidP(int64_t better, int64_t worse) {
  const int64_t k = std::min(better, worse), n = better + worse;
  return std::min(1.0, FairTossesAtMost(k, n) + (k > 0 ? FairTossesAtMost(k - 1, n) : 0.0));
}

std::vector<double> Holm(const std::vector<double>& p) {
  std::vector<size_t> order(p.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return p[i]; });
  std::vector<double> adjusted(p.size());
  double largest = 0;
  for (size_t k = 0; k < order.size(); ++k) {
    largest = std::max(largest, std::min(1.0, p[order[k]] * static_cast<double>(p.size() - k)));
    adjusted[order[k]] = largest;
  }
  return adjusted;
}

// Larger d need fewer items, so this bisects between 0 and the largest possible difference.
double SmallestDetectable(double mean_square, int64_t items) {
  TARE_CHECK(mean_square > 0 && items > 0);
  double low = 0, high = 1;
  for (int i = 0; i < 60; ++i) {
    const double d = (low + high) / 2;
    (ItemsFor(d, mean_square) > static_cast<double>(items) ? low : high) = d;
  }
  return high;
}

double SmallestDetectable(const MeanError& of) {
  return (StudentQuantile(0.975, of.degrees) + StudentQuantile(0.8, of.degrees)) * of.error;
}

int64_t ItemsToShow(double d, double mean_square) {
  TARE_CHECK(d > 0 && d <= 1 && mean_square > 0);
  return static_cast<int64_t>(std::ceil(ItemsFor(d, mean_square)));
}

}  // namespace tare
