// SPDX-License-Identifier: Apache-2.0
// Records of `tare quantize --method`'s steps, each defined in the source named beside it; what parsers share.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "experiments/quantize/quantize.h"
#include "quant/base/message.h"

namespace tare {

// rotations.cc
extern const StepKind kHadamardStep, kCayleyStep;
// smoothquant.cc, awq.cc
extern const StepKind kSmoothQuantStep, kAwqStep;
// second_moments.cc
extern const StepKind kNearestStep, kGptqStep, kGptaqStep, kQronosStep, kSignRoundStep, kQuantEaseStep;
// autoround.cc
extern const StepKind kAutoRoundStep;
// svdquant.cc
extern const StepKind kSvdQuantStep;

inline constexpr const StepKind* kAllSteps[] = {&kHadamardStep, &kCayleyStep,    &kSmoothQuantStep, &kAwqStep,
                                                &kNearestStep,  &kSvdQuantStep,  &kGptqStep,        &kGptaqStep,
                                                &kQronosStep,   &kSignRoundStep, &kAutoRoundStep,   &kQuantEaseStep};
inline StepKinds AllSteps() { return kAllSteps; }

// Parses a method of any of these steps.
inline QuantizeMethod ParseMethod(std::string_view text) { return ParseMethod(text, AllSteps()); }

// Options follow a step's name and colons. Their readers throw Error through FailUsage, naming the step.

// The number, from least to most, that is all the text after the first colon. Empty: there is no colon.
template <typename T>
std::optional<T> NumberOption(std::string_view step, std::string_view expected,
                              T least = std::numeric_limits<T>::lowest(), T most = std::numeric_limits<T>::max()) {
  const size_t colon = step.find(':');
  if (colon == step.npos) return std::nullopt;
  const std::optional<T> value = ParseNumber<T>(step.substr(colon + 1));
  if (!value || !(*value >= least && *value <= most))
    FailUsage("--method '{}': expected {} after the colon", step, expected);
  return value;
}
inline constexpr std::string_view kSeedOption = "a whole number below 2^64";

// "name:STEPS:SEED", steps from 1 to 10,000; and the same again, without what is as by default.
struct StepsAndSeed {
  int steps = 0;
  uint64_t seed = 0;
};
inline int StepsOption(std::string_view step, int otherwise) {  // "name:STEPS"
  return NumberOption<int>(step, "1 to 10000 steps", 1, 10000).value_or(otherwise);
}
StepsAndSeed StepsAndSeedOption(std::string_view step, int steps_otherwise);
std::string WithStepsAndSeed(const std::string& name, StepsAndSeed options, int steps_otherwise);

// Refuses a rule whose codes learned rounding does not make.
void RequireIntegers(const Rule& rule);

}  // namespace tare
