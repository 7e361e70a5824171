// SPDX-License-Identifier: Apache-2.0
// The matrix of rank r that is nearest to W [out, in] by squares (Eckart and Young), as two thin factors:
//
//   W = U S V^T              singular values in S, falling
//   up down = (U_r S_r) V_r^T
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tare {

struct ThinFactors {
  std::vector<double> up;    // [out, rank]
  std::vector<double> down;  // [rank, in]; rows of length 1, at right angles
};

// In double, on one thread. Throws Error from `where` for values not finite and ranks not in 1 .. min(out, in).
ThinFactors NearestOfRank(const float* w, int64_t out, int64_t in, int64_t rank, const std::string& where);

}  // namespace tare
