// SPDX-License-Identifier: Apache-2.0
// What a choice of weights takes in a file: codes, scales, zero points and minima, as tare inspect counts them; of a
// matrix that stays unquantized, its tensor as the checkpoint stores it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "experiments/model/config/config.h"
#include "experiments/studies/search/levels.h"

namespace tare {

struct StoredBits {
  double weights = 0;  // values in the parts' matrices
  double others = 0;   // bits of every other tensor
};

// Makes stored bits the cost of every level, and a part's operands its weights. Throws Error unless every part is
// weights of the checkpoint.
StoredBits CountStoredBits(const std::filesystem::path& model, const ModelConfig& config,
                           std::vector<SearchPart>& parts);

}  // namespace tare
