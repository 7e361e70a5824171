// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/steps/table.h"

namespace tare {

StepsAndSeed StepsAndSeedOption(std::string_view step, int steps_otherwise) {
  const size_t colon = step.find(':'), second = colon == step.npos ? step.npos : step.find(':', colon + 1);
  StepsAndSeed options{.steps = StepsOption(step.substr(0, second), steps_otherwise)};
  if (second == step.npos) return options;
  const std::optional<uint64_t> seed = ParseNumber<uint64_t>(step.substr(second + 1));
  if (!seed) FailUsage("--method '{}': expected {} after the second colon", step, kSeedOption);
  options.seed = *seed;
  return options;
}

std::string WithStepsAndSeed(const std::string& name, StepsAndSeed options, int steps_otherwise) {
  if (options.seed != 0) return Formatted("{}:{}:{}", name, options.steps, options.seed);
  return options.steps == steps_otherwise ? name : Formatted("{}:{}", name, options.steps);
}

void RequireIntegers(const Rule& rule) {
  if (!IsInteger(rule.format))
    RefuseRule(rule, Name(rule.format), "integer codes, as learned rounding has them", "int4, or gptq for this");
}

}  // namespace tare
