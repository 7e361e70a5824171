// SPDX-License-Identifier: Apache-2.0
// Transformations of input channels, which whoever makes the inputs undoes: rotations, and factors: channel j of the
// input is divided by s_j and its weights are multiplied by s_j.
//
// SmoothQuant (Xiao et al., arXiv 2211.10438, eq. 4): outliers of activations become weights', which round better.
//
//   s_j = max|X_j|^alpha / max|W_j|^(1 - alpha)
//
// AWQ (Lin et al., arXiv 2306.00978): channels with large values are rounded with more steps, then ranges of groups
// clipped. Both are searched by the error of outputs on calibration inputs, as in the authors' llm-awq:
//
//   s_j  = max(a_j^ratio, 10^-4) / sqrt(largest s * smallest s)      a_j: mean |x_j|; ratio 0, 0.05 .. 0.95
//   clip = largest magnitude of the group * (1 - i/20)               i = 0 .. 9, the first of least ||(w - q) x||^2
//
// A group's clip sees its own inputs alone, as if others were exact. H = X X^T has all inputs, llm-awq 512 tokens.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "quant/algorithms/round_to_nearest.h"
#include "quant/format/format.h"
#include "quant/format/hadamard.h"
#include "quant/format/quantized_matrix.h"

namespace tare {

// input, weight: largest |x| per channel, finite, as many. alpha: 0 to 1. s = 1 where either is 0, else 1e-5 to 1e5.
std::vector<float> SmoothingFactors(std::span<const float> input, std::span<const float> weight, double alpha);

inline constexpr int kAwqRatios = 20;

// magnitudes: mean |x| per channel, finite, >= 0. ratio: 0 .. kAwqRatios - 1, in twentieths; 0 gives ones. A channel
// whose inputs are all 0 has s = 1 (llm-awq: the smallest s, which would round its weights to 0).
std::vector<float> AwqFactors(std::span<const double> magnitudes, int ratio);

// The ends of every group of W [out, in], [out][groups], with the least error of outputs; read(row, values): W's rows.
// matrix: format and groups. moments: H [in, in], both triangles. Uses all threads; rows are independent.
std::vector<Ends> AwqEnds(const ReadRow& read, const QuantizedMatrix& matrix, std::span<const float> moments);

// ---- A rotation of channels, x -> x R: a randomised Hadamard rotation, perhaps with a learned one after it
// (CayleyStep) or a reflection, with which R keeps the mean of the channels and so commutes with a LayerNorm:
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

// A step from q [n, n] against m [n, n], row-major; q stays where A is 0. Double, one thread: 11 n^3 / 3 products.
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
// Adds the gradient of <p, e(w)> to `gradient`, for one group's values: none without a scale; of equal ends one counts.
void AddErrorGrowth(const Format& format, std::span<const float> w, std::span<const float> e, std::span<const float> p,
                    std::span<float> gradient);

}  // namespace tare
