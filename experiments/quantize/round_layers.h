// SPDX-License-Identifier: Apache-2.0
// The step of `tare quantize` that makes codes: rounds a checkpoint's weights, one layer at a time, into a quantized
// checkpoint.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "experiments/model/config.h"
#include "experiments/quantize/provenance.h"
#include "experiments/quantize/quantize.h"
#include "quant/file/checkpoint.h"
#include "quant/plan/site.h"

namespace tare {

// Tensors that plans quantize, by name, and their sites.
std::map<std::string, SiteKey> WeightSites(const ModelConfig& config);

// Refuses whatever the plan and the method cannot do with these tensors, before the first is read; returns how many
// matrices the plan rounds.
int64_t CheckRounding(const QuantizeJob& job, const Checkpoint& files, const ModelConfig& config);

// model: job.model, or the checkpoint without codes that was made from it. Finished layers are kept in `parts` and read
// from there; null: they are not kept.
QuantizeSummary RoundLayers(const QuantizeJob& job, const std::filesystem::path& model, LayerParts* parts,
                            const Progress& progress);

}  // namespace tare
