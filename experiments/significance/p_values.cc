// SPDX-License-Identifier: Apache-2.0
#include "experiments/significance/p_values.h"

#include <algorithm>
#include <numeric>

#include "experiments/significance/distributions.h"

namespace tare {

double McNemarExact(int64_t better, int64_t worse) {
  return std::min(1.0, 2 * FairTossesAtMost(std::min(better, worse), better + worse));
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
