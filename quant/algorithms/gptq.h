// SPDX-License-Identifier: Apache-2.0
// GPTQ (Frantar et al., arXiv 2210.17323): weights are rounded one input at a time, and the inputs not yet rounded
// compensate for the error, so that ||(W - Q) X|| stays small on calibration inputs X.
//
//   H    = X X^T + damping mean(diag) I
//   H^-1 = U^T U, U upper triangular
//   for each input i:
//     q_i  = round(w_i)
//     e    = (w_i - q_i) / U_ii
//     w_j -= e U_ij               for all j after i
//
// Inputs go in the order of falling H_ii ("act-order"); groups and their scales are those of the stored order, taken
// from W before the first rounding, so the file looks like any other. U comes from one Cholesky factor of H backwards
// and one triangular inverse: H = R R^T with R upper triangular, U = R^-1.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "quant/algorithms/round_to_nearest.h"
#include "quant/format/quantized_matrix.h"

namespace tare {

inline constexpr double kGptqDamping = 0.01;

// What all weights with the same inputs share.
class GptqFactor {
 public:
  // hessian: sum of x x^T, [in, in], symmetric; only its upper triangle is read. An input that never differed from 0 is
  // rounded to nearest. Throws Error, beginning with `where`, where it is not finite or not positive definite.
  GptqFactor(const std::vector<float>& hessian, int64_t in, double damping, const std::string& where);

  int64_t in() const { return static_cast<int64_t>(order_.size()); }
  // Rounds all of matrix's rows; read(row, values) gives W's. Uses all threads; rows do not depend on each other.
  void Round(const std::function<void(int64_t row, float* values)>& read, ClipChoice choice,
             QuantizedMatrixBuffer& matrix) const;

 private:
  void RoundRows(int64_t first, int64_t count, const std::function<void(int64_t, float*)>& read, ClipChoice choice,
                 QuantizedMatrixBuffer& matrix) const;

  std::vector<int64_t> order_;  // order_[i]: the input that goes i-th
  std::vector<float> upper_;    // U [in, in], row-major
};

}  // namespace tare
