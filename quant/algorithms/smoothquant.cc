// SPDX-License-Identifier: Apache-2.0
#include "quant/algorithms/smoothquant.h"

#include <algorithm>
#include <cmath>

#include "quant/base/error.h"

namespace tare {

std::vector<float> SmoothingFactors(std::span<const float> input, std::span<const float> weight, double alpha) {
  TARE_CHECK(input.size() == weight.size() && alpha >= 0 && alpha <= 1);
  std::vector<float> s(input.size(), 1.0f);
  for (size_t j = 0; j < s.size(); ++j) {
    if (input[j] == 0 || weight[j] == 0) continue;
    const double factor = std::pow(double{input[j]}, alpha) / std::pow(double{weight[j]}, 1 - alpha);
    s[j] = static_cast<float>(std::clamp(factor, 1e-5, 1e5));
  }
  return s;
}

}  // namespace tare
