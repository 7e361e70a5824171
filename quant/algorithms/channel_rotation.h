// SPDX-License-Identifier: Apache-2.0
// A rotation of channels, x -> x R: a randomised Hadamard rotation, or that and a learned one after it (CayleyStep), or
// that and a reflection after it, with which R keeps the mean of the channels and so commutes with a LayerNorm:
//
//   R = H (I - 2 w w^T / |w|^2),  w = 1 H - 1     takes the vector of ones, which H makes 1 H, back to itself
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "quant/format/format.h"
#include "quant/format/hadamard.h"

namespace tare {

class ChannelRotation {
 public:
  // learned: an orthogonal matrix Q [n, n], row-major, of first.size() channels: R = first Q; empty: R = first.
  explicit ChannelRotation(Hadamard first, std::vector<double> learned = {});
  static ChannelRotation KeepingTheMean(Hadamard first);

  int64_t size() const { return first_.size(); }
  // y = x R for a row of size() values, summed in double; y may be x. Thread-safe.
  void Rotate(const float* x, float* y) const;

 private:
  Hadamard first_;
  std::vector<double> learned_;
  std::vector<double> mirror_;  // w sqrt(2) / |w|; empty: no reflection
};

// Descent over orthogonal matrices Q [n, n] (the Stiefel manifold) by the Cayley transform (Li, Li and Todorovic, arXiv
// 2002.01113; what SpinQuant, arXiv 2405.16406, learns its rotations with):
//
//   A = M - M^T                  dL = <M, Q^T dQ>: only the skew part of M is a direction in which Q stays orthogonal
//   Q <- Q (I + K)^-1 (I - K)    K = angle / 2  sqrt(n) A / ||A||: turns by `angle` radians, in the root mean square
//
// The factor is orthogonal for any skew K: (I + K) (I - K) = (I - K) (I + K). The papers solve for it by a few
// iterations; here it is exact, so that Q stays orthogonal to double's rounding in any number of steps.
inline constexpr int kCayleySteps = 100;

// One step from q [n, n], against the gradient m [n, n], both row-major. Where A is 0, q stays. Sums are in double, on
// one thread: 8 n^3 / 3 products for the factor and n^3 for q.
void CayleyStep(int64_t n, std::span<const double> m, double angle, std::vector<double>& q);

// How the errors of rounding grow with the weights of their group, for gradients through rounding: they keep their size
// in steps of the group's scale, and the scale is in proportion to a magnitude m of the weights w:
//
//   e(w) = e m(w) / m      m: largest |w|, mean |w|, root of the mean square, or the range (+zero, +min)
//
// Its derivative is that of straight-through estimators (LSQ, arXiv 1902.08153), to which rounding's codes move with
// their weights. With codes held an error would follow its own weight, which is exact until a code changes and wrong
// over any step that changes many: experiments/quantize/steps/rotations.cc says what that costs.
//
// Adds the gradient of <p, e(w)> to `gradient`; all of the values of one group, as many. A group without a scale adds
// nothing; of several equal ends one counts.
void AddErrorGrowth(const Format& format, std::span<const float> w, std::span<const float> e, std::span<const float> p,
                    std::span<float> gradient);

}  // namespace tare
