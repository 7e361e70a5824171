// SPDX-License-Identifier: Apache-2.0
// What the examples compute with: standard normal values, products, and how far two tensors are apart.
#pragma once

#include <cmath>
#include <cstddef>
#include <numeric>
#include <random>
#include <vector>

inline std::vector<float> RandomTensor(size_t size) {
  static std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> x(size);
  for (float& value : x) value = normal(random);
  return x;
}

// x W^T of x [rows, in] and W [out, in]: [rows, out]
inline std::vector<float> Project(const std::vector<float>& x, const std::vector<float>& w, size_t in) {
  std::vector<float> y(x.size() / in * (w.size() / in));
  for (size_t i = 0; i < y.size(); ++i) {
    const float *row = &x[i / (w.size() / in) * in], *weights = &w[i % (w.size() / in) * in];
    y[i] = std::inner_product(row, row + in, weights, 0.0f);
  }
  return y;
}

// ||x - y|| / ||y||
inline double RelativeError(const std::vector<float>& x, const std::vector<float>& y) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < x.size(); ++i) error += std::pow(x[i] - y[i], 2), norm += std::pow(y[i], 2);
  return std::sqrt(error / norm);
}
