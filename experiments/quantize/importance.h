// SPDX-License-Identifier: Apache-2.0
// How much each input channel of a model's weights counts, the mean of x^2, in llama.cpp's files
// (quant/interchange/gguf/imatrix.h). Weights have their names in GGUF files. Families that llama.cpp lacks, as the
// differential ones, have the names that a llama's tensors would have.
#pragma once

#include <vector>

#include "experiments/model/config/family.h"
#include "quant/interchange/gguf/imatrix.h"
#include "quant/observe/statistics_set.h"

namespace tare {

// A value for each input channel of a weight. Throws Error if the matrix has none of it, or other sizes than the
// model's.
std::vector<float> ImportanceOf(const gguf::Imatrix& matrix, const ModelConfig& config, const LinearLayer& linear);

// What llama-imatrix sums over the same tokens, exactly, and as one chunk. Throws Error for inputs of layers that the
// statistics lack, values that are not finite, and experts, whose inputs statistics hold together.
gguf::Imatrix ImatrixOf(const StatisticsSet& set, const ModelConfig& config);

}  // namespace tare
