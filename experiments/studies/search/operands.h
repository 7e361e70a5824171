// SPDX-License-Identifier: Apache-2.0
// The definition of a plan's cost: every multiply-add takes two operands, and each costs its bits, regardless of
// reuse.
//
//   site                      operands per token
//   X.w, X.in                 in x out of the matrix
//   q, k                      query heads x d x keys
//   probs, difference, v      maps (difference: 1) x values of attention's output x keys; v of as many maps as there
//                             are
//   cache_k, cache_v          key/value heads x d x keys: what decoding reads
//   any other                 its values per token: no product uses them
//
// keys: the mean number of keys that a query sees in a window of W positions, (W + 1) / 2, or fewer with a sliding
// window. Unquantized values count 16 bits; scales count nothing.
#pragma once

#include <cstdint>

#include "experiments/model/config.h"
#include "quant/plan/site_key.h"

namespace tare {

inline constexpr int kUnquantizedBits = 16;

// Of a layer's site, or of one outside the layers.
double OperandsPerToken(Site site, std::optional<int> layer, const ModelConfig& config, int64_t window);

}  // namespace tare
