// SPDX-License-Identifier: Apache-2.0
// Weights that a plan's rule rounds to nearest, and the parts of it that other methods use.
#pragma once

#include <string>

#include "experiments/model/linear/weight_matrix.h"
#include "quant/algorithms/round_to_nearest.h"
#include "quant/plan/plan.h"

namespace tare {

// The rows of `in` weights that a rule rounds: those that `read` reads, rotated if the rule has +hadamard.
ReadRow RowsToRound(const Rule& rule, int64_t in, ReadRow read);

// An empty matrix for a rule's codes; reads the rows that are rounded if the format has an f32 per tensor.
QuantizedMatrixBuffer MatrixFor(const Rule& rule, int64_t out, int64_t in, const ReadRow& read);

// Quantizes a matrix by a rule, rounding to nearest.
QuantizedMatrixBuffer QuantizeByRule(const WeightMatrix& weight, const Rule& rule, const std::string& where);

}  // namespace tare
