// SPDX-License-Identifier: Apache-2.0
// SmoothQuant (Xiao et al., arXiv 2211.10438, eq. 4): divides input channel j by s_j and multiplies its weights by s_j,
// so that outliers of activations become outliers of weights, which are easier to round.
//
//   s_j = max|X_j|^alpha / max|W_j|^(1 - alpha)
#pragma once

#include <span>
#include <vector>

namespace tare {

// input, weight: largest magnitude per channel, finite, same length. 0 <= alpha <= 1. s = 1 for a channel with a 0 in
// either; all others lie between 1e-5 and 1e5.
std::vector<float> SmoothingFactors(std::span<const float> input, std::span<const float> weight, double alpha);

}  // namespace tare
