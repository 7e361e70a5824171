// SPDX-License-Identifier: Apache-2.0
// The step of `tare quantize` that makes codes: a checkpoint's weights rounded, a layer at a time, into a quantized
// checkpoint.
#pragma once

#include <filesystem>

#include "experiments/quantize/layer_parts.h"
#include "experiments/quantize/quantize.h"

namespace tare {

// model: job.model, or the checkpoint without codes that was made of it. Finished layers are kept in parts, and taken
// from there; null: they are not.
QuantizeSummary RoundLayers(const QuantizeJob& job, const std::filesystem::path& model, const LayerParts* parts,
                            const Progress& progress);

}  // namespace tare
