// SPDX-License-Identifier: Apache-2.0
// Transformations of input channels, which whoever makes the inputs undoes: factors, and rotations.
//
// Factors of input channels: channel j of the input is divided by s_j and its weights are multiplied by s_j.
//
// SmoothQuant (Xiao et al., arXiv 2211.10438, eq. 4): outliers of activations become outliers of weights, which are
// easier to round.
//
//   s_j = max|X_j|^alpha / max|W_j|^(1 - alpha)
//
// AWQ (Lin et al., arXiv 2306.00978): input channels that carry large values are rounded more finely, with
// more steps; then the ranges of groups are clipped. Both are searched by the error of the outputs on calibration
// inputs, as in the authors' llm-awq:
//
//   s_j  = max(a_j^ratio, 10^-4) / sqrt(largest s * smallest s)      a_j: mean |x_j|; ratio 0, 0.05 .. 0.95
//   clip = largest magnitude of the group * (1 - i/20)               i = 0 .. 9, the first of least ||(w - q) x||^2
//
// A group's clip looks at its own inputs alone, as if the other groups were exact. Where llm-awq looks at 512 sampled
// tokens, second moments H = X X^T take all in.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "quant/algorithms/round_to_nearest.h"
#include "quant/format/format.h"
#include "quant/format/hadamard.h"
#include "quant/format/quantized_matrix.h"

namespace tare {

// input, weight: largest magnitude per channel, finite, same length. 0 <= alpha <= 1. s = 1 for a channel with a 0 in
// either; all others lie between 1e-5 and 1e5.
std::vector<float> SmoothingFactors(std::span<const float> input, std::span<const float> weight, double alpha);

inline constexpr int kAwqRatios = 20;

// magnitudes: mean |x| per channel, finite, >= 0. ratio: 0 .. kAwqRatios - 1, in twentieths; 0 gives ones. A channel
// whose inputs are all 0 has s = 1 (llm-awq: the smallest s, which would round its weights to 0).
std::vector<float> AwqFactors(std::span<const double> magnitudes, int ratio);

// The ends of every group of W [out, in], [out][groups], with the least error of its outputs; read(row, values) gives
// W's rows. matrix: its format and groups count. moments: H [in, in], both triangles. Uses all threads; rows are
// independent.
std::vector<Ends> AwqEnds(const ReadRow& read, const QuantizedMatrix& matrix, std::span<const float> moments);

// ---- A rotation of channels, x -> x R: a randomised Hadamard rotation, or that and a learned one after it
// (CayleyStep), or that and a reflection after it, with which R keeps the mean of the channels and so commutes with a
// LayerNorm:
//
//   R = H (I - 2 w w^T / |w|^2),  w = 1 H - 1     takes the vector of ones, which H makes 1 H, back to itself

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
