// SPDX-License-Identifier: Apache-2.0
#include "experiments/evidence/p_values.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "quant/base/error.h"

namespace tare {

// With tan(angle) = |t| / sqrt(d): for odd d the terms are cos, 2/3 cos^3, 2*4/(3*5) cos^5 .. cos^(d-2); for even d
// 1, 1/2 cos^2, 1*3/(2*4) cos^4 .. cos^(d-2).
double StudentTwoSided(double t, int degrees) {
  TARE_CHECK(degrees >= 1);
  const double angle = std::atan(std::abs(t) / std::sqrt(degrees)), c = std::cos(angle), s = std::sin(angle);
  const bool odd = degrees % 2 == 1;
  double term = odd ? c : 1.0, sum = 0;
  for (int k = odd ? 1 : 0; k <= degrees - 2; k += 2) {
    sum += term;
    term *= c * c * (k + 1) / (k + 2);
  }
  const double inside = odd ? 2 / std::numbers::pi * (angle + s * sum) : s * sum;
  return std::clamp(1 - inside, 0.0, 1.0);
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

}  // namespace tare
