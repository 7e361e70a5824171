// SPDX-License-Identifier: Apache-2.0
// The records of the steps of `tare quantize --method`, each defined in the source that is named beside it; table.cc
// lists them.
#pragma once

#include "experiments/quantize/method.h"

namespace tare {

// rotations.cc
extern const StepKind kHadamardStep, kCayleyStep;
// smoothquant.cc, awq.cc
extern const StepKind kSmoothQuantStep, kAwqStep;
// second_moments.cc
extern const StepKind kNearestStep, kGptqStep, kGptaqStep, kSignRoundStep, kQuantEaseStep;
// autoround.cc
extern const StepKind kAutoRoundStep;

StepKinds AllSteps();

// Of all steps.
inline QuantizeMethod ParseMethod(std::string_view text) { return ParseMethod(text, AllSteps()); }

}  // namespace tare
