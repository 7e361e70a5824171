// SPDX-License-Identifier: Apache-2.0
// GPTQ (Frantar et al., arXiv 2210.17323): weights are rounded one input at a time, and the inputs not yet rounded
// compensate for the error, so that ||(W - Q) X|| stays small on calibration inputs X.
//
//   H = X X^T + damping mean(diag) I
//   H = R R^T, R upper triangular
//   for each input j:
//     q_j = round(w_j + sum over i before j of (w_i - q_i) R_ij / R_jj)
//
// The paper moves all w_j behind i by (w_i' - q_i) U_ij / U_ii, with w' the moved weights and H^-1 = U^T U. That U is
// R^-1, and both give the same w': E U = W - Q is E = (W - Q) R, column by column (Chen et al., arXiv 2507.18553: GPTQ
// is Babai's nearest plane). R needs no inverse.
//
// Inputs are processed by falling H_ii ("act-order"). Groups keep the stored order, and their scales are taken from W
// before the first rounding, so the file looks like any other. R comes from one backward Cholesky factorization of H.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "quant/algorithms/panel_products.h"
#include "quant/algorithms/round_to_nearest.h"
#include "quant/format/quantized_matrix.h"

namespace tare {

// Parts shared by the algorithms on a calibration's second moments H = sum of x x^T, [in, in].

// Mean of H's diagonal, the unit of damping; 1 if every input is always 0.
inline double MeanOfDiagonal(const std::vector<float>& hessian, int64_t in) {
  double mean = 0;
  for (int64_t i = 0; i < in; ++i) mean += double{hessian[i * in + i]} / static_cast<double>(in);
  return mean > 0 ? mean : 1.0;
}

inline constexpr double kGptqDamping = 0.01;

// Shared by all weights with the same inputs.
class GptqFactor {
 public:
  // hessian: sum of x x^T, [in, in], symmetric; only its upper triangle is read. An input that is always 0 is rounded
  // to nearest. Throws Error, starting with `where`, if the hessian is not finite or not positive definite.
  GptqFactor(const std::vector<float>& hessian, int64_t in, double damping, const std::string& where);

  int64_t in() const { return static_cast<int64_t>(order_.size()); }
  // Rounds all of matrix's rows; read(row, values) gives W's. Uses all threads; rows do not depend on each other.
  void Round(const ReadRow& read, const GroupEnds& ends, QuantizedMatrixBuffer& matrix) const;

 private:
  struct RowsInWork;
  void Fill(const ReadRow& read, const GroupEnds& ends, QuantizedMatrixBuffer& matrix, RowsInWork& rows) const;
  void RoundRows(const QuantizedMatrix& m, RowsInWork& rows) const;
  void RoundColumn(const QuantizedMatrix& m, int64_t column, RowsInWork& rows) const;

  std::vector<int64_t> order_;  // order_[i]: the input processed i-th
  Panels upper_;                // R [in, in]
};

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
