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
// Codes that stand for eight inputs (grid.h) are rounded eight inputs at a time: those before them move all eight to
// where the error would be least, w + (sum over i before of (w_i - q_i) R_i,eight) R_eight,eight^-1, and the nearest
// point is taken (block LDLQ of QuIP#, arXiv 2402.04396, section 4.1).
//
// Inputs are processed by falling H_ii ("act-order"; GptqOrder), or eights of neighbours by the mean of theirs. Groups
// keep the stored order, and their scales are taken from W before the first rounding (or as they are moved: GptqOrder),
// so the file looks like any other. R comes from one backward Cholesky factorization of H.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "quant/algorithms/round_to_nearest.h"
#include "quant/algorithms/second_moments.h"
#include "quant/format/quantized_matrix.h"

namespace tare {

inline constexpr double kGptqDamping = 0.01;

// In which inputs are rounded: by falling mean square, so that what counts most loses least, or as stored; kMoved: as
// stored, and a group's scale is that of its weights as all inputs before moved them. The authors' code does so without
// static_groups, but lacks moves within its blocks of 128. A whole tensor's scale (NVFP4) is of stored weights.
enum class GptqOrder { kFalling, kStored, kMoved };

// Shared by all weights with the same inputs.
class GptqFactor {
 public:
  // hessian: sum of x x^T, [in, in], symmetric; only its upper triangle is read. An input that is always 0 is rounded
  // to nearest, if it shares its code with no other. together: the most inputs that have one code in any of the
  // weights, 1 or kLatticeWidth. Throws Error, starting with `where`, if the hessian is not [in, in], not finite or
  // not positive definite, the damping is below 0, or `together` does not divide in.
  GptqFactor(const std::vector<float>& hessian, int64_t in, double damping, const std::string& where,
             int64_t together = 1, GptqOrder order = GptqOrder::kFalling);

  int64_t in() const { return static_cast<int64_t>(order_.size()); }
  int64_t first() const { return order_.front(); }  // the input that is rounded first
  // Rounds all rows; read(row, values): W's. Uses all threads; rows are independent. Throws Error for other inputs.
  void Round(const ReadRow& read, const GroupEnds& ends, QuantizedMatrixBuffer& matrix) const;

 private:
  struct RowsInWork;
  void Fill(const ReadRow& read, RowsInWork& rows) const;
  void RoundRows(RowsInWork& rows) const;
  void Move(Range columns, float* sums) const;
  void ScaleMoved(int64_t later, int64_t column, RowsInWork& rows) const;
  void RoundColumn(int64_t column, RowsInWork& rows) const;
  void RoundPanel(int64_t panel, RowsInWork& rows) const;

  GptqOrder by_;
  std::vector<int64_t> order_;  // order_[i]: the input processed i-th
  Panels upper_;                // R [in, in]
};

}  // namespace tare
