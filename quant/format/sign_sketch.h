// SPDX-License-Identifier: Apache-2.0
// The signs of a random projection of what rounding left of a row, one bit per channel and the row's length: QJL
// (Zandieh et al., arXiv 2406.03482, definition 3.1), as TurboQuant adds it to rounded keys (arXiv 2504.19874,
// algorithm 2).
//
//   r = x - D(x)     y = D(x) + sqrt(pi/2) / n |r| S^T sign(S r)     S [n, n] independent normal values
//
// For any q the mean of q y over S is q x: the scores of a query have no bias, for a larger variance. S is one fixed
// matrix, as in a cache.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tare {

class SignSketch {
 public:
  // The sketch of rows of n >= 1 channels.
  SignSketch(int64_t n, uint64_t seed);

  int64_t size() const { return n_; }
  // Adds to a rounded row what the sketch of x less that row gives; all of size() finite values. Thread-safe.
  void AddResidual(std::span<const float> x, std::span<float> rounded) const;

 private:
  int64_t n_;
  std::vector<float> rows_;  // S
};

// The sketch of a plan's +sketch, the same for all rows of n channels. Made once, and kept while the program runs.
const SignSketch& PlanSketch(int64_t n);

}  // namespace tare
