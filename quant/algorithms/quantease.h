// SPDX-License-Identifier: Apache-2.0
// QuantEase (Behdin et al., arXiv 2309.01885): coordinate descent on the codes of a matrix already rounded (by GPTQ or
// to nearest) and on its scales. No step raises a row's error on the calibration inputs:
//
//   L(Q) = (w - q) H (w - q)^T
//   H    = X X^T + damping mean(diag) I
//   g    = (w - q) H
//
//   code i:  q_i = round(q_i + g_i / H_ii), the nearest code to the best value with all others fixed
//   scales:  the G scales of a row that minimize L with its codes fixed, a G x G system
//            (our addition: the paper does not change them)
//
// A sweep visits every code of a row once, in storage order, with a gradient computed anew. Scales and sweeps
// alternate, scales first; scales that are formats themselves (E8M0, E4M3) do not change.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "quant/algorithms/round_to_nearest.h"
#include "quant/algorithms/second_moments.h"
#include "quant/format/quantized_matrix.h"

namespace tare {

class QuantEase {
 public:
  // hessian: sum of x x^T, [in, in]; read is its upper triangle. Throws Error, starting with `where`, if not finite.
  QuantEase(const std::vector<float>& hessian, int64_t in, double damping, const std::string& where);

  // Improves all rows; read(row, values): W's. Uses all threads. Rows stop after `sweeps`, or one without a change.
  void Improve(const ReadRow& read, int sweeps, QuantizedMatrixBuffer& matrix) const;

 private:
  struct Block;
  void Read(const ReadRow& read, const QuantizedMatrix& m, Block& block) const;
  void FitScales(Block& block) const;
  void Sweep(Block& block) const;
  void ImproveColumn(int64_t column, Block& block) const;

  int64_t in_;
  Panels hessian_;  // [in, in], both triangles, damped
};

}  // namespace tare
