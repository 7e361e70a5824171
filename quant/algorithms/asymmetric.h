// SPDX-License-Identifier: Apache-2.0
// Weights that compensate for the error of earlier layers (asymmetric calibration: GPTAQ, Li et al., arXiv 2504.02692).
// After rounded layers a layer sees inputs x~ where the model as stored sees x. Of all real weights those with the
// least error ||W X - W' X~||^2 + damping mean(diag) ||W' - W||^2 are
//
//   W' = W + W C H^-1
//   C  = sum of (x - x~) x~^T
//   H  = sum of x~ x~^T + damping mean(diag) I
//
// and rounding W' with H in place of W leaves the least error of both together: ||W X - Q X~||^2 is a constant plus
// (W' - Q) H (W' - Q)^T. (The paper corrects as it rounds, one input at a time; this is the same least-squares
// problem solved at once.)
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tare {

class AsymmetricTarget {
 public:
  // hessian: sum of x~ x~^T, of which the upper triangle is read; cross: C; both [in, in]. Throws Error, beginning with
  // `where`, where H is not positive definite.
  AsymmetricTarget(const std::vector<float>& hessian, const std::vector<float>& cross, int64_t in, double damping,
                   const std::string& where);

  // w [rows, in] becomes W'. Uses all threads.
  void Correct(int64_t rows, float* w) const;

 private:
  int64_t in_;
  std::vector<float> change_;  // C H^-1 [in, in]
};

}  // namespace tare
