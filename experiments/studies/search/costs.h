// SPDX-License-Identifier: Apache-2.0
// The cost of a plan: every multiply-add takes two operands, and each costs its bits, regardless of reuse.
//
//   site                      operands per token
//   X.w, X.in                 in x out of the matrix
//   probs, difference, v      maps (difference: 1) x values of attention's output x keys; v for as many maps as the
//                             layer has
//   cache_k, cache_v          key/value heads x d x keys: what decoding reads
//   any other                 its values per token: no product uses them
//
// keys: the mean number of keys that a query sees in a window of W positions, (W + 1) / 2, or fewer with a sliding
// window. Unquantized values count 16 bits; scales count nothing.
//
// Or what a choice of weights takes in a file: codes, scales, zero points and minima, as tare inspect counts them; of a
// matrix that stays unquantized, its tensor as the checkpoint stores it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "experiments/model/config/config.h"
#include "experiments/studies/search/levels.h"
#include "quant/plan/site.h"

namespace tare {

inline constexpr int kUnquantizedBits = 16;

// For a site in a layer, or outside the layers.
double OperandsPerToken(Site site, std::optional<int> layer, const ModelConfig& config, int64_t window);

struct StoredBits {
  double weights = 0;  // values in the parts' matrices
  double others = 0;   // bits of every other tensor
};

// Makes stored bits the cost of every level, and a part's operands its weights. Throws Error unless every part is
// weights of the checkpoint.
StoredBits CountStoredBits(const std::filesystem::path& model, const ModelConfig& config,
                           std::vector<SearchPart>& parts);

}  // namespace tare
