// SPDX-License-Identifier: Apache-2.0
// The step of `tare quantize` that makes codes: rounds a checkpoint's weights, one layer at a time, into a quantized
// checkpoint.
#pragma once

#include "experiments/quantize/job.h"
#include "experiments/quantize/provenance.h"

namespace tare {

// model: the job's, or what was made from it; text: what a calibrated method sees. Finished layers are kept in `parts`
// and read from there; null: they are not kept.
QuantizeSummary RoundLayers(const QuantizeJob& job, const ModelFiles& model, const CalibrationWindows& text,
                            LayerParts* parts, const Progress& progress);

}  // namespace tare
