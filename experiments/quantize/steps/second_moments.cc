// SPDX-License-Identifier: Apache-2.0
// Steps that round each matrix by its input's second moments alone, and rounding to nearest, by nothing:
//
//   rtn                     to nearest
//   gptq | gptaq            quant/algorithms/gptq.h; gptaq makes up for what the layers before have lost
//                           (AsymmetricTarget). gptq:0.05, gptq:stored, gptq:0.05:stored: another damping than 0.01,
//                           inputs in the order in which they are stored; gptq:moved: in this order, and groups' scales
//                           from weights as rounding has moved them
//   qronos                  gptaq but for the code taken first (AsymmetricTarget); its damping is 1e-6 of the moments'
//                           largest eigenvalue
//   signround[:STEPS]       learned rounding (sign_round.h); STEPS 1 to 10,000, else 200
//   quantease               better codes and scales (quantease.h)
#include <algorithm>
#include <memory>

#include "experiments/plan/resolved_plan.h"
#include "experiments/quantize/steps/table.h"
#include "quant/algorithms/gptq.h"
#include "quant/algorithms/quantease.h"
#include "quant/algorithms/second_moments.h"
#include "quant/algorithms/sign_round.h"
#include "quant/format/hadamard.h"

namespace tare {
namespace {

constexpr int kSweeps = 6;  // of quantease

constexpr double kQronosDamping = 1e-6;

struct GptqOptions {
  double damping;
  GptqOrder order = GptqOrder::kFalling;
};

// "gptq:0.05:stored": words after the name, each kind at most once.
GptqOptions ReadGptqOptions(std::string_view step, double damping_otherwise) {
  GptqOptions options{damping_otherwise};
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

// Refuses a rule whose codes stand for several weights.
void RequireCodeEach(const Rule& rule, std::string_view as, std::string_view instead) {
  if (Info(rule.format).together > 1)
    RefuseRule(rule, Name(rule.format), Formatted("a code for each weight, as {}", as), instead);
}

using Factor = std::shared_ptr<const GptqFactor>;

Factor FactorOf(SharedInput& input, const GptqOptions& options) {
  return std::make_shared<const GptqFactor>(input.Rotated(), input.moments.in, options.damping, input.where,
                                            input.together, options.order);
}

InputRounding RoundBy(const Factor& factor) {
  return {.round = [factor](const ReadRow& read, const GroupEnds& ends, QuantizedMatrixBuffer& matrix) {
    factor->Round(read, ends, matrix);
  }};
}

// first: as AsymmetricTarget has it.
InputRounding RoundCorrected(const SharedInput& input, const Factor& factor, double damping,
                             std::span<const float> first = {}) {
  const SecondMoments& m = input.moments;
  const auto target = std::make_shared<const AsymmetricTarget>(m.values, m.cross, m.in, damping, input.where, first);
  InputRounding rounding = RoundBy(factor);
  rounding.aim = [target](int64_t out, float* w) { target->Correct(out, w); };
  return rounding;
}

InputRounding RoundByQronos(SharedInput& input, GptqOptions options) {
  const SecondMoments& m = input.moments;
  options.damping *= std::max(LargestEigenvalue(m.values, m.in) / MeanOfDiagonal(m.values, m.in), 1.0);
  const Factor factor = FactorOf(input, options);
  std::vector<float> first(static_cast<size_t>(m.in), 0.0f);
  first[factor->first()] = 1;
  if (input.rotation != nullptr) input.rotation->RotateBack(first.data(), first.data());
  return RoundCorrected(input, factor, options.damping, first);
}

Step GptqStep(std::string_view text, double damping_otherwise,
              InputRounding (*round)(SharedInput& input, GptqOptions options)) {
  const GptqOptions options = ReadGptqOptions(text, damping_otherwise);
  Step step{.text = std::string(text.substr(0, text.find(':'))) +
                    (options.damping == damping_otherwise ? "" : Formatted(":{}", options.damping)) +
                    (options.order == GptqOrder::kStored  ? ":stored"
                     : options.order == GptqOrder::kMoved ? ":moved"
                                                          : ""),
            .on_input = [=](SharedInput& input) { return round(input, options); }};
  if (options.order == GptqOrder::kMoved)
    step.no_ends = "awq chooses ranges before any weight has moved; try awq+gptq:stored";
  return step;
}

Step ReadGptq(std::string_view text) {
  return GptqStep(text, kGptqDamping,
                  [](SharedInput& input, GptqOptions options) { return RoundBy(FactorOf(input, options)); });
}

Step ReadGptaq(std::string_view text) {
  Step step = GptqStep(text, kGptqDamping, [](SharedInput& input, GptqOptions options) {
    return RoundCorrected(input, FactorOf(input, options), options.damping);
  });
  step.compares_with_stored = true;
  return step;
}

Step ReadQronos(std::string_view text) {
  Step step = GptqStep(text, kQronosDamping, RoundByQronos);
  step.compares_with_stored = true;
  step.no_better = "quantease improves towards weights that its first code is not of; try gptaq+quantease";
  step.check_rule = [](const Rule& rule) { RequireCodeEach(rule, "qronos takes the first", "gptaq"); };
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
  const auto check_rule = [](const Rule& rule) { RequireCodeEach(rule, "quantease improves them", "gptq without it"); };
  return {.text = "quantease", .on_input = on_input, .check_rule = check_rule};
}

}  // namespace

const StepKind kNearestStep{"rtn", StepPlace::kCodes, [](std::string_view) { return *QuantizeMethod().codes; }, "",
                            "rounds to nearest; after awq if no other step rounds"};

const StepKind kGptqStep{"gptq", StepPlace::kCodes, ReadGptq, "[:DAMPING][:stored|:moved]",
                         "rounds input by input, and corrects those that follow"};

const StepKind kGptaqStep{"gptaq", StepPlace::kCodes, ReadGptaq, " likewise",
                          "gptq that also corrects for the errors of earlier layers"};

const StepKind kQronosStep{"qronos", StepPlace::kCodes, ReadQronos, " likewise",
                           "gptaq whose first input makes up for the whole error"};

const StepKind kSignRoundStep{"signround", StepPlace::kCodes, ReadSignRound, "[:STEPS]",
                              "learns the rounding of each matrix (200 steps)"};

const StepKind kQuantEaseStep{"quantease", StepPlace::kBetterCodes, ReadQuantEase, "",
                              "improves codes and scales after a step above"};

}  // namespace tare
