// SPDX-License-Identifier: Apache-2.0
// The step of `tare quantize` that makes codes: rounds a checkpoint's weights, one layer at a time, into a quantized
// checkpoint.
#pragma once

#include <filesystem>

#include "experiments/quantize/provenance.h"
#include "experiments/quantize/quantize.h"

namespace tare {

// model: job.model, or the checkpoint without codes that was made from it. Finished layers are kept in `parts` and read
// from there; null: they are not kept.
QuantizeSummary RoundLayers(const QuantizeJob& job, const std::filesystem::path& model, LayerParts* parts,
                            const Progress& progress);

}  // namespace tare
