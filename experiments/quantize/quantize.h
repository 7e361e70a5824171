// SPDX-License-Identifier: Apache-2.0
// A checkpoint folder to a quantized checkpoint. Round to nearest holds one tensor in memory at a time, beside the
// mapped folder; GPTQ one layer's second moments, the calibration's residual streams and the dequantized weights.
#pragma once

#include <filesystem>
#include <string>

#include "experiments/tasks/progress.h"
#include "experiments/tasks/sequences.h"
#include "quant/format/plan.h"

namespace tare {

enum class QuantizeMethod { kNearest, kGptq };

struct QuantizeJob {
  std::filesystem::path model;  // a checkpoint folder
  Plan plan;                    // of weights
  std::filesystem::path out;
  QuantizeMethod method = QuantizeMethod::kNearest;
  std::filesystem::path calibration = {};  // a text or ids; for GPTQ alone
  WindowOptions windows = {};              // of it
};

struct QuantizeSummary {
  int64_t matrices = 0;        // quantized
  int64_t values = 0;          // in them
  int64_t bytes_before = 0;    // of all tensors
  int64_t bytes_after = 0;     // codes and scales among them
  double relative_error = 0;   // ||W - Q|| / ||W|| over all matrices together
  double bits_per_weight = 0;  // of the quantized matrices, scales among them
};

// GPTQ takes the layers in order, each calibrated on what the quantized layers before it compute. Throws Error, and
// leaves nothing under `out`, where anything is wrong with the model or the plan.
QuantizeSummary Quantize(const QuantizeJob& job, const Progress& progress);

}  // namespace tare
