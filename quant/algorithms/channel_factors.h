// SPDX-License-Identifier: Apache-2.0
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

#include <span>
#include <vector>

#include "quant/algorithms/round_to_nearest.h"
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

}  // namespace tare
