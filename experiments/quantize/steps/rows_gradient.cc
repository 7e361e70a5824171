// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/steps/rows_gradient.h"

#include <cmath>

namespace tare {

void RmsNormGradient(const float* x, const float* weight, float eps, const float* dy, size_t n, float* dx) {
  double squares = 0, along = 0;
  for (size_t i = 0; i < n; ++i) {
    const double by = weight == nullptr ? double{dy[i]} : double{weight[i]} * double{dy[i]};
    squares += double{x[i]} * double{x[i]};
    along += double{x[i]} * by;
  }
  const auto count = static_cast<double>(n);
  const double r = 1 / std::sqrt(squares / count + double{eps});
  const auto of_dy = static_cast<float>(r), of_x = static_cast<float>(r * r * r * along / count);
  for (size_t i = 0; i < n; ++i) {
    const float by = weight == nullptr ? dy[i] : weight[i] * dy[i];
    dx[i] = of_dy * by - of_x * x[i];
  }
}

void SwiGluGradient(const float* gate, const float* up, const float* dy, size_t n, float* dgate, float* dup) {
  for (size_t i = 0; i < n; ++i) {
    const float s = 1 / (1 + std::exp(-gate[i]));
    dgate[i] = dy[i] * up[i] * s * (1 + gate[i] * (1 - s));
    dup[i] = dy[i] * gate[i] * s;
  }
}

}  // namespace tare
