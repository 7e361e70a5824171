// SPDX-License-Identifier: Apache-2.0
// Parts shared by the algorithms on a calibration's second moments H = sum of x x^T, [in, in].
#pragma once

#include <cstdint>
#include <vector>

namespace tare {

// Mean of H's diagonal, in units of which damping is given; 1 where no input ever differed from 0.
inline double MeanOfDiagonal(const std::vector<float>& hessian, int64_t in) {
  double mean = 0;
  for (int64_t i = 0; i < in; ++i) mean += double{hessian[i * in + i]} / static_cast<double>(in);
  return mean > 0 ? mean : 1.0;
}

}  // namespace tare
