// SPDX-License-Identifier: Apache-2.0
// Weights that compensate for the error of earlier layers (asymmetric calibration: GPTAQ, Li et al., arXiv 2504.02692).
// Behind rounded layers, a layer sees inputs x~ where the stored model has x. Over real weights, the error ||W X - W'
// X~||^2 + damping mean(diag) ||W' - W||^2 is least for
//
//   W' = W + W C H^-1
//   C  = sum of (x - x~) x~^T
//   H  = sum of x~ x~^T + damping mean(diag) I
//
// Rounding W' with H instead of W minimizes both errors together: ||W X - Q X~||^2 is a constant plus (W' - Q) H (W' -
// Q)^T. (The paper corrects while it rounds, one input at a time; this solves the same least-squares problem at once.)
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "quant/algorithms/panel_products.h"

namespace tare {

class AsymmetricTarget {
 public:
  // hessian: sum of x~ x~^T, only its upper triangle is read; cross: C; both [in, in]. Throws Error, starting with
  // `where`, if H is not positive definite.
  AsymmetricTarget(const std::vector<float>& hessian, const std::vector<float>& cross, int64_t in, double damping,
                   const std::string& where);

  // w [rows, in] becomes W'. Uses all threads.
  void Correct(int64_t rows, float* w) const;

 private:
  int64_t in_;
  Panels change_;  // C H^-1 [in, in]
};

}  // namespace tare
