// SPDX-License-Identifier: Apache-2.0
// Stored tensors that are several linear layers' weights, or biases, one below another, as a family's record says
// (LinearPlace::fused). Everything else sees one tensor per linear layer: rows of the stored one, in place. A tensor of
// all experts is seen as those of each expert (LinearPlace::stacked).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "experiments/model/config/family.h"
#include "quant/checkpoint/checkpoint.h"

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

// Tensors of all experts of a layer, of all layers: NAME [experts, in, out], NAME_bias [experts, out].
struct StackedTensor {
  std::string name;
  MatrixShape shape;                 // of an expert's matrix
  std::vector<std::string> experts;  // what its parts are called, without ".weight" and ".bias"

  Checkpoint::Experts Parts(std::string_view suffix) const;
};
std::vector<StackedTensor> StackedTensors(const ModelConfig& config);

}  // namespace tare
