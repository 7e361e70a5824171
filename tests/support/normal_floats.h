// SPDX-License-Identifier: Apache-2.0
// The numbers of std::normal_distribution<float>. For each of its draws libstdc++ asks for two logarithms in long
// double, which clang does not compute beforehand: two fifths of the time of the sanitized tests of kernels.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>

namespace tare {

class NormalFloats {
 public:
  explicit NormalFloats(float mean = 0, float deviation = 1) : mean_(mean), deviation_(deviation) {}

  // Marsaglia's polar method, whose points come in pairs.
  float operator()(std::mt19937& random) {
    has_saved_ = !has_saved_;
    if (!has_saved_) return saved_ * deviation_ + mean_;
    float x, y, square;
    do {
      x = 2 * Uniform(random) - 1;
      y = 2 * Uniform(random) - 1;
      square = x * x + y * y;
    } while (square > 1 || square == 0);
    const float factor = std::sqrt(-2 * std::log(square) / square);
    saved_ = x * factor;
    return y * factor * deviation_ + mean_;
  }

 private:
  // In [0, 1).
  static float Uniform(std::mt19937& random) { return std::min(static_cast<float>(random()) * 0x1p-32f, 1 - 0x1p-24f); }

  float mean_, deviation_, saved_ = 0;
  bool has_saved_ = false;
};

}  // namespace tare
