// SPDX-License-Identifier: Apache-2.0
// Options of a step, which follow its name and colons: "gptq:0.05". What reads them throws Error through FailUsage,
// naming the step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "quant/base/error.h"
#include "quant/base/number.h"
#include "quant/plan/plan.h"

namespace tare {

// What follows the first colon; all of it must be a number. Empty: there is no colon.
template <typename T>
std::optional<T> NumberOption(std::string_view step, std::string_view expected) {
  const size_t colon = step.find(':');
  if (colon == step.npos) return std::nullopt;
  const std::optional<T> value = ParseNumber<T>(step.substr(colon + 1));
  if (!value) FailUsage("--method '{}': expected {} after the colon", step, expected);
  return value;
}

// "name:STEPS": 1 to 10,000.
int StepsOption(std::string_view step, int otherwise);

// "name:STEPS:SEED".
struct StepsAndSeed {
  int steps = 0;
  uint64_t seed = 0;
};
StepsAndSeed StepsAndSeedOption(std::string_view step, int steps_otherwise);
inline constexpr std::string_view kSeedOption = "a whole number below 2^64";

// The same again, without what is as by default.
std::string WithStepsAndSeed(const std::string& name, StepsAndSeed options, int steps_otherwise);

// Refuses a rule whose codes learned rounding does not make.
void RequireIntegers(const Rule& rule);

}  // namespace tare
