// SPDX-License-Identifier: Apache-2.0
// hadamard[:SEED]: equivalent weights, rotated (equivalent_weights.h); SEED of the signs, 0 if it is not given.
// cayley[:STEPS[:SEED]]: hadamard's, and after it rotations of the residual stream and of each layer's values that are
// learned on the calibration text for what the plan rounds: those of least error that descent from the identity by
// Cayley steps sees (rotated_error.h, quant/algorithms/channel_rotation.h). STEPS is 1 to 10,000, else 100.
//
// Measured on the embedded standard model, the stream alone, whose weights the Hadamard rotation leaves with a loss of
// 0.165 in int4 in groups of 64 and 16 (16,384 tokens, 100 steps of 0.19 s on two cores): 36 % less, and 38 % in 300
// steps. With codes held in the gradient, which is exact between changes of codes, 23 %, and with codes and scales held
// 14 %.
#pragma once

#include <vector>

#include "experiments/passes/progress.h"
#include "experiments/quantize/steps/rotated_error.h"

namespace tare {

struct LearnedRotation {
  std::vector<std::vector<double>> rotations;  // in the order of RotatedError::sizes()
  double first = 0, least = 0;                 // error of the identity, and of these: not more
};

// The steps' angles fall to 0 in equal parts.
LearnedRotation LearnRotation(RotatedError& error, int steps, const Progress& progress);

}  // namespace tare
