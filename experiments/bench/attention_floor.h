// SPDX-License-Identifier: Apache-2.0
// The error below which an integer kernel cannot go: f32 attention on the same codes of Q, K and V. The kernel's
// probabilities and exponential cause whatever exceeds it.
#pragma once

#include "experiments/bench/attention_inputs.h"
#include "experiments/plan/executed_plan.h"

namespace tare {

// Runs our f32 kernel on the dequantized tensors, into the inputs' out.
AttentionInputs::Errors FloorErrors(const AttentionInputs& inputs, const ExecutedPlan& plan);

}  // namespace tare
