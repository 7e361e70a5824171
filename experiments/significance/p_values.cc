// SPDX-License-Identifier: Apache-2.0
#include "experiments/significance/p_values.h"

#include <algorithm>
#include <cmath>

#include <boost/math/distributions/binomial.hpp>
#include <boost/math/distributions/chi_squared.hpp>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>

#include "experiments/significance/draws.h"
#include "quant/base/message.h"

namespace tare {
namespace {

namespace math = boost::math;

double ItemsFor(double d, double mean_square) {
  const double q = std::max(mean_square, d);
  const double root = (NormalQuantile(0.975) * std::sqrt(q) + NormalQuantile(0.8) * std::sqrt(q - d * d)) / d;
  return root * root;
}

}  // namespace

double NormalBelow(double z) { return math::cdf(math::normal(), z); }

double NormalQuantile(double share) {
  TARE_CHECK(share > 0 && share < 1);
  return math::quantile(math::normal(), share);
}

double StudentTwoSided(double t, int degrees) {
  TARE_CHECK(degrees >= 1);
  return 2 * math::cdf(math::complement(math::students_t(degrees), std::abs(t)));
}

double StudentQuantile(double share, int degrees) {
  TARE_CHECK(degrees >= 1 && share > 0 && share < 1);
  return math::quantile(math::students_t(degrees), share);
}

double ChiSquaredAbove(double x, int degrees) {
  TARE_CHECK(degrees >= 1 && x >= 0);
  return math::cdf(math::complement(math::chi_squared(degrees), x));
}

double FairTossesAtMost(int64_t k, int64_t n) {
  TARE_CHECK(0 <= k && k <= n);
  return math::cdf(math::binomial(static_cast<double>(n), 0.5), static_cast<double>(k));
}

double McNemarMidP(int64_t better, int64_t worse) {
  const int64_t k = std::min(better, worse), n = better + worse;
  return std::min(1.0, FairTossesAtMost(k, n) + (k > 0 ? FairTossesAtMost(k - 1, n) : 0.0));
}

std::vector<double> Holm(const std::vector<double>& p) {
  std::vector<size_t> order = AllBelow(p.size());
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
