// SPDX-License-Identifier: Apache-2.0
#include "experiments/significance/distributions.h"

#include <cmath>

#include <boost/math/distributions/binomial.hpp>
#include <boost/math/distributions/chi_squared.hpp>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>

#include "quant/base/error.h"

namespace tare {
namespace {

namespace math = boost::math;

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

}  // namespace tare
