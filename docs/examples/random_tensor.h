// SPDX-License-Identifier: Apache-2.0
// What the examples compute with: standard normal values, and how far two tensors are apart.
#pragma once

#include <cmath>
#include <cstddef>
#include <random>
#include <vector>

inline std::vector<float> RandomTensor(size_t size) {
  static std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> x(size);
  for (float& value : x) value = normal(random);
  return x;
}

// ||x - y|| / ||y||
inline double RelativeError(const std::vector<float>& x, const std::vector<float>& y) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < x.size(); ++i) error += std::pow(x[i] - y[i], 2), norm += std::pow(y[i], 2);
  return std::sqrt(error / norm);
}
