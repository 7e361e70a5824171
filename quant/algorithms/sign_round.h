// SPDX-License-Identifier: Apache-2.0
// SignRound (Cheng et al., arXiv 2309.05516; AutoRound's method): learns for each weight an offset of its rounding, and
// for each group how far its range shrinks (learned_rows.h), by the signs of the gradient of the output's error on
// calibration inputs X:
//
//   L = (w - q) H (w - q)^T     H = X X^T; its gradient to q is 2 (q - w) H, exact
//   r = (1 - t / n) / n         in step t of n
//
// A row keeps the best that it has seen, which is at least as good as rounding to nearest. AutoRound samples batches
// and looks at the output of a whole block (experiments/quantize/steps/autoround.h); here the gradient is that of all
// tokens, so that nothing is random and there is no seed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "quant/algorithms/panel_products.h"
#include "quant/algorithms/round_to_nearest.h"
#include "quant/format/quantized_matrix.h"

namespace tare {

inline constexpr int kSignRoundSteps = 200;

class SignRound {
 public:
  // hessian: sum of x x^T, [in, in], symmetric; only its upper triangle is read. An input that is always 0 is rounded
  // to nearest. Throws Error, starting with `where`, if it is not finite.
  SignRound(const std::vector<float>& hessian, int64_t in, const std::string& where);

  // Rounds all of matrix's rows; read(row, values) gives W's, ends a group's to begin with. The format must have
  // integer codes. Takes 2 * steps * out * in^2 operations. Uses all threads; rows are independent.
  void Round(const ReadRow& read, const GroupEnds& ends, int steps, QuantizedMatrixBuffer& matrix) const;

 private:
  int64_t in_;
  Panels hessian_;  // [in, in], both triangles
};

}  // namespace tare
