// SPDX-License-Identifier: Apache-2.0
// Importance of input channels, the mean of x^2, in llama.cpp's files (quant/interchange/gguf/imatrix.h). Weights have
// GGUF names; families that llama.cpp lacks, as the differential ones, a llama's.
#pragma once

#include <vector>

#include "experiments/model/config/family.h"
#include "quant/interchange/gguf/imatrix.h"
#include "quant/observe/statistics_set.h"

namespace tare {

// A value per input channel of a weight. Throws Error if the matrix lacks the weight or has other sizes.
std::vector<float> ImportanceOf(const gguf::Imatrix& matrix, const ModelConfig& config, const LinearLayer& linear);

// What llama-imatrix sums over the same tokens, exactly, and as one chunk. Throws Error for inputs of layers that the
// statistics lack, values that are not finite, and experts, whose inputs statistics hold together.
gguf::Imatrix ImatrixOf(const StatisticsSet& set, const ModelConfig& config);

}  // namespace tare
