// SPDX-License-Identifier: Apache-2.0
// The step of `tare quantize` that makes codes: a checkpoint's weights rounded, one layer at a time, into a quantized
// checkpoint.
#pragma once

#include <filesystem>

#include "experiments/model/config.h"
#include "experiments/quantize/layer_parts.h"
#include "experiments/quantize/quantize.h"
#include "quant/file/checkpoint.h"

namespace tare {

// Refuses what the plan and the method cannot do with these tensors, before the first is touched; returns how many
// matrices the plan rounds.
int64_t CheckRounding(const QuantizeJob& job, const Checkpoint& files, const ModelConfig& config);

// model: job.model, or the checkpoint without codes that was made of it. Finished layers are kept in parts, and taken
// from there; null: they are not.
QuantizeSummary RoundLayers(const QuantizeJob& job, const std::filesystem::path& model, LayerParts* parts,
                            const Progress& progress);

}  // namespace tare
