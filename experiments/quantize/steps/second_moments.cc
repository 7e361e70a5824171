// SPDX-License-Identifier: Apache-2.0
// The steps that round each matrix by the second moments of its input alone, and rounding to nearest, which looks at
// nothing:
//
//   rtn                     to nearest
//   gptq | gptaq            quant/algorithms/gptq.h; gptaq makes up for what the layers before have lost
//                           (AsymmetricTarget). gptq:0.05, gptq:stored, gptq:0.05:stored: another damping than 0.01,
//                           inputs in the order in which they are stored; gptq:moved: in this order, and groups' scales
//                           from weights as rounding has moved them
//   signround[:STEPS]       learned rounding (sign_round.h); STEPS 1 to 10,000, else 200
//   quantease               better codes and scales (quantease.h)
#include <memory>

#include "experiments/plan/resolved_plan.h"
#include "experiments/quantize/steps/table.h"
#include "quant/algorithms/gptq.h"
#include "quant/algorithms/quantease.h"
#include "quant/algorithms/second_moments.h"
#include "quant/algorithms/sign_round.h"
#include "quant/base/message.h"

namespace tare {
namespace {

constexpr int kSweeps = 6;  // of quantease

struct GptqOptions {
  double damping = kGptqDamping;
  GptqOrder order = GptqOrder::kFalling;
};

// "gptq:0.05:stored": words after the name, each kind at most once.
GptqOptions ReadGptqOptions(std::string_view step) {
  GptqOptions options;
  bool damped = false;
  for (std::string_view rest = step; rest.contains(':');) {
    rest.remove_prefix(rest.find(':') + 1);
    const std::string_view word = rest.substr(0, rest.find(':'));
    if ((word == "stored" || word == "moved") && options.order == GptqOrder::kFalling) {
      options.order = word == "stored" ? GptqOrder::kStored : GptqOrder::kMoved;
      continue;
    }
    const std::optional<double> damping = ParseNumber<double>(word);
    if (damped || !damping || !(*damping > 0 && *damping <= 1))
      FailUsage(
          "--method '{}': got '{}', expected a damping above 0 and up to 1, or one of stored and moved, each "
          "once",
          step, word);
    options.damping = *damping;
    damped = true;
  }
  return options;
}

InputRounding RoundByGptq(SharedInput& input, const GptqOptions& options) {
  const auto factor = std::make_shared<const GptqFactor>(input.Rotated(), input.moments.in, options.damping,
                                                         input.where, input.together, options.order);
  return {.round = [factor](const ReadRow& read, const GroupEnds& ends, QuantizedMatrixBuffer& matrix) {
    factor->Round(read, ends, matrix);
  }};
}

Step GptqStep(const std::string& name, const GptqOptions& options) {
  Step step{.text = name + (options.damping == kGptqDamping ? "" : Formatted(":{}", options.damping)) +
                    (options.order == GptqOrder::kStored  ? ":stored"
                     : options.order == GptqOrder::kMoved ? ":moved"
                                                          : ""),
            .on_input = [options](SharedInput& input) { return RoundByGptq(input, options); }};
  if (options.order == GptqOrder::kMoved)
    step.no_ends = "awq chooses ranges before any weight has moved; try awq+gptq:stored";
  return step;
}

Step ReadGptaq(std::string_view text) {
  const GptqOptions options = ReadGptqOptions(text);
  Step step = GptqStep("gptaq", options);
  step.compares_with_stored = true;
  step.on_input = [options](SharedInput& input) {
    const SecondMoments& m = input.moments;
    const auto target = std::make_shared<const AsymmetricTarget>(m.values, m.cross, m.in, options.damping, input.where);
    InputRounding rounding = RoundByGptq(input, options);
    rounding.aim = [target](int64_t out, float* w) { target->Correct(out, w); };
    return rounding;
  };
  return step;
}

Step ReadSignRound(std::string_view text) {
  const int steps = StepsOption(text, kSignRoundSteps);
  const auto on_input = [steps](SharedInput& input) -> InputRounding {
    const auto learned = std::make_shared<const SignRound>(input.Rotated(), input.moments.in, input.where);
    return {.round = [learned, steps](const ReadRow& read, const GroupEnds& ends, QuantizedMatrixBuffer& matrix) {
      learned->Round(read, ends, steps, matrix);
    }};
  };
  return {.text = WithStepsAndSeed("signround", {.steps = steps}, kSignRoundSteps),
          .on_input = on_input,
          .check_rule = RequireIntegers};
}

Step ReadQuantEase(std::string_view) {
  const auto on_input = [](SharedInput& input) -> InputRounding {
    const auto descent =
        std::make_shared<const QuantEase>(input.Rotated(), input.moments.in, kGptqDamping, input.where);
    return {.improve = [descent](const ReadRow& read, QuantizedMatrixBuffer& matrix) {
      descent->Improve(read, kSweeps, matrix);
    }};
  };
  const auto check_rule = [](const Rule& rule) {
    if (Info(rule.format).together > 1)
      RefuseRule(rule, Name(rule.format), "a code for each weight, as quantease improves them", "gptq without it");
  };
  return {.text = "quantease", .on_input = on_input, .check_rule = check_rule};
}

}  // namespace

const StepKind kNearestStep{.name = "rtn",
                            .place = StepPlace::kCodes,
                            .read = [](std::string_view) { return *QuantizeMethod().codes; },
                            .help = "rounds to nearest; after awq if no other step rounds"};

const StepKind kGptqStep{"gptq", StepPlace::kCodes,
                         [](std::string_view step) { return GptqStep("gptq", ReadGptqOptions(step)); },
                         "[:DAMPING][:stored|:moved]", "rounds input by input, and corrects those that follow"};

const StepKind kGptaqStep{.name = "gptaq",
                          .place = StepPlace::kCodes,
                          .read = ReadGptaq,
                          .options = " likewise",
                          .help = "gptq that also corrects for the errors of earlier layers"};

const StepKind kSignRoundStep{"signround", StepPlace::kCodes, ReadSignRound, "[:STEPS]",
                              "learns the rounding of each matrix (200 steps)"};

const StepKind kQuantEaseStep{"quantease", StepPlace::kBetterCodes, ReadQuantEase, "",
                              "improves codes and scales after a step above"};

}  // namespace tare
