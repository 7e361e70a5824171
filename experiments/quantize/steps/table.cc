// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/steps/table.h"

namespace tare {

StepKinds AllSteps() {
  static constexpr const StepKind* kSteps[] = {&kHadamardStep,  &kCayleyStep,   &kSmoothQuantStep, &kAwqStep,
                                               &kNearestStep,   &kGptqStep,     &kGptaqStep,       &kSignRoundStep,
                                               &kAutoRoundStep, &kQuantEaseStep};
  return kSteps;
}

}  // namespace tare
