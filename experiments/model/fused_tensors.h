// SPDX-License-Identifier: Apache-2.0
// Stored tensors that are several linear layers' weights, or biases, one below another, as a family's record says
// (LinearPlace::fused). Everything else sees one tensor per linear layer: rows of the stored one, in place. Experts'
// tensors of three dimensions are seen as one matrix per layer (LinearPlace::experts).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "experiments/model/config.h"
#include "quant/file/checkpoint.h"

namespace tare {

// Splits them. A checkpoint that holds the parts, as quantized ones do, stays as it is.
void SplitFused(const ModelConfig& config, Checkpoint& files);

// Opens the checkpoint and splits them.
Checkpoint OpenSplit(const std::filesystem::path& path, const ModelConfig& config);

// The stored tensors and their rows, of all layers.
struct FusedTensor {
  std::string name;
  std::vector<Checkpoint::Rows> parts;
};
std::vector<FusedTensor> FusedTensors(const ModelConfig& config);

}  // namespace tare
