// SPDX-License-Identifier: Apache-2.0
// A checkpoint of random weights, for timing and tests of size: normal with deviation 1/sqrt(in); small tensors follow
// the record (norms of 1, lambda vectors of deviation 0.1). The same seed gives the same bytes on every machine.
#pragma once

#include <cstdint>
#include <filesystem>

#include "experiments/model/config/config.h"
#include "kernels/linear/projector.h"

namespace tare {

// Creates the folder and writes config.json and model.safetensors. Holds the whole checkpoint in memory.
void WriteRandomCheckpoint(const std::filesystem::path& folder, const ModelConfig& config, WeightType type,
                           uint64_t seed);

}  // namespace tare
