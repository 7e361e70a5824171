// SPDX-License-Identifier: Apache-2.0
// QuantEase (Behdin et al., arXiv 2309.01885): coordinate descent on a matrix that is rounded already, by GPTQ or to
// nearest, and on its scales. Each step lowers a row's error on the calibration inputs, or leaves it as it was:
//
//   L(Q) = (w - q) H (w - q)^T
//   H    = X X^T + damping mean(diag) I
//   g    = (w - q) H
//
//   code i:  q_i = round(q_i + g_i / H_ii), the nearest code to the best value with all others held
//   scales:  the G scales of a row that make L least with its codes held, a G x G system
//            (our addition: the paper keeps them)
//
// A sweep is every code of a row once, in the order of storage. Scales first, then a sweep, again and again; scales
// that are formats themselves (E8M0, E4M3) stay.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "quant/format/quantized_matrix.h"

namespace tare {

class QuantEase {
 public:
  // hessian: sum of x x^T, [in, in], symmetric; only its upper triangle is read. Throws Error, beginning with `where`,
  // where it is not finite.
  QuantEase(const std::vector<float>& hessian, int64_t in, double damping, const std::string& where);

  // Improves all rows; read(row, values) gives W's. Uses all threads; rows do not depend on each other. Stops a row
  // after `sweeps`, or when one changed nothing.
  void Improve(const std::function<void(int64_t row, float* values)>& read, int sweeps,
               QuantizedMatrixBuffer& matrix) const;

 private:
  struct Block;
  void FitScales(Block& block) const;
  void Sweep(Block& block) const;

  int64_t in_;
  std::vector<float> hessian_;  // [in, in], both triangles, damped
};

}  // namespace tare
