// SPDX-License-Identifier: Apache-2.0
// y = (x - mean(x)) / sqrt(mean((x - mean(x))^2) + eps) * weight + bias, of one row. Source: Ba, Kiros, Hinton 2016.
#pragma once

#include <cmath>
#include <span>

namespace tare {

struct LayerNormTerms {
  std::span<const float> weight, bias;  // [n]
  float eps;
};

inline void LayerNorm(const float* x, const LayerNormTerms& terms, float* y) {
  const size_t n = terms.weight.size();
  double mean = 0, variance = 0;
  for (size_t i = 0; i < n; ++i) mean += x[i];
  mean /= static_cast<double>(n);
  for (size_t i = 0; i < n; ++i) variance += (x[i] - mean) * (x[i] - mean);
  const auto by = static_cast<float>(1 / std::sqrt(variance / static_cast<double>(n) + terms.eps)),
             middle = static_cast<float>(mean);
  for (size_t i = 0; i < n; ++i) y[i] = (x[i] - middle) * by * terms.weight[i] + terms.bias[i];
}

}  // namespace tare
