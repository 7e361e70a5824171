// SPDX-License-Identifier: Apache-2.0
// SignRound (Cheng et al., arXiv 2309.05516; AutoRound's method): learns each weight's offset of rounding and each
// group's shrinking range (LearnedRows) by the signs of the gradient of the output's error on calibration inputs X:
//
//   L = (w - q) H (w - q)^T     H = X X^T; its gradient to q is 2 (q - w) H, exact
//   r = (1 - t / n) / n         in step t of n
//
// A row keeps its best, at least as good as rounding to nearest. AutoRound samples batches and sees a block's output
// (experiments/quantize/steps/autoround.h); this gradient is of all tokens, so nothing is random and there is no seed.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "quant/algorithms/round_to_nearest.h"
#include "quant/algorithms/second_moments.h"
#include "quant/base/aligned.h"
#include "quant/format/quantized_matrix.h"

namespace tare {

// Rows of a matrix whose rounding is learned (arXiv 2309.05516): each weight's offset v, how far each range shrinks.
//
//   low  = c + alpha (low0 - c), high = c + beta (high0 - c)     the group's ends; c = 0, with a minimum their middle
//   code = clamp(round(w / scale + v))                           with the zero point or minimum of these ends (round.h)
//   v   -= r sign(dL/dv), |v| <= 1/2, likewise 0 < alpha, beta <= 1
//
// Whoever holds the loss L gives its gradient by the rounded weights. Rounding counts as the identity in gradients, a
// clamp as constant. Rows are the lanes of vectors, kRowsTogether of them, in the order of Panels.
class LearnedRows {
 public:
  using Lanes = std::array<float, kRowsTogether>;

  // Rows from the first, multiples of kRowsTogether, with v of 0 and whole ranges: rounded to nearest. read(row,
  // values): W's rows, ends: a group's at first. For integer codes; m must stay. Throws Error for a weight not finite.
  LearnedRows(const QuantizedMatrix& m, int64_t first, const ReadRow& read, const GroupEnds& ends);

  int64_t first() const { return first_; }
  int64_t count() const { return count_; }  // lanes with a row; the others are zeros

  // Codes of what is learned so far.
  void Round();
  // What Round has made of the weights, less the weights: [in][kRowsTogether], to the end of the last panel.
  const float* errors() const { return error_.data(); }
  void CopyValues(int64_t lane, float* row) const;  // the rounded weights [in]

  // dL / d rounded weights, up to one positive factor per row, as errors() lie: set before Step.
  float* gradient() { return gradient_.data(); }
  const float* gradient() const { return gradient_.data(); }
  // One step of the size r, at what Round has made.
  void Step(float rate);

  // Keeps what Round has made, of lanes that are not 0.
  void Keep(const Lanes& better);
  // Writes what was kept. Nothing is until Keep.
  void Write(QuantizedMatrixBuffer& matrix) const;

 private:
  // What is learned of a group, and its fixed parts.
  struct Group {
    Ends widest = {0, 0};  // for alpha and beta of 1
    float centre = 0;      // that the ends shrink to
    float alpha = 1, beta = 1;

    Ends Now() const { return {centre + alpha * (widest.low - centre), centre + beta * (widest.high - centre)}; }
  };
  // A group's scales, of all lanes.
  struct Scales {
    Lanes scale, inv, zero, origin;
  };
  // d L / d of these, and of the groups' lower ends where that is not by way of the scale.
  struct Gradients {
    std::array<double, kRowsTogether> scale{}, low{};
  };

  void RoundColumn(const Scales& lanes, int64_t at);
  void MoveColumn(const Lanes& rates, int64_t at);
  Gradients GradientsOf(int64_t g) const;
  void AddColumn(const Scales& lanes, const Lanes& low_steps, int64_t at, Gradients& sums) const;
  void StepRange(double of_scale, double of_low_end, float rate, Group& group) const;

  const QuantizedMatrix* m_;
  int64_t first_, count_;
  float least_, most_;                                     // codes
  AlignedBuffer<float> w_, v_, codes_, error_, gradient_;  // [in][kRowsTogether]
  AlignedBuffer<float> inside_;                            // 1 where the code is not clamped
  AlignedBuffer<float> kept_codes_;
  std::vector<Group> groups_, kept_groups_;  // [groups][kRowsTogether]
  std::vector<Scales> scales_;               // [groups] of groups_ as they were rounded
};

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
