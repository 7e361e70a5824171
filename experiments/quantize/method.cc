// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/method.h"

#include <vector>

#include "quant/base/error.h"
#include "quant/base/formatted.h"
#include "quant/base/number.h"

namespace tare {
namespace {

std::vector<std::string_view> Split(std::string_view text) {
  std::vector<std::string_view> steps;
  for (size_t plus = 0; plus != std::string_view::npos;) {
    plus = text.find('+');
    steps.push_back(text.substr(0, plus));
    if (plus != std::string_view::npos) text.remove_prefix(plus + 1);
  }
  return steps;
}

// What follows the colon of "name:value"; all of it must be a number.
template <typename T>
T Parameter(std::string_view step, const char* expected) {
  const std::optional<T> value = ParseNumber<T>(step.substr(step.find(':') + 1));
  if (!value) FailUsage("--method '{}': expected {} after the colon", step, expected);
  return *value;
}

double Alpha(std::string_view step) {
  const double alpha = Parameter<double>(step, "a number from 0 to 1");
  if (!(alpha >= 0 && alpha <= 1)) FailUsage("--method '{}': expected a number from 0 to 1 after the colon", step);
  return alpha;
}

int Steps(std::string_view step) {
  constexpr const char* kExpected = "1 to 10000 steps";
  const int steps = Parameter<int>(step, kExpected);
  if (steps < 1 || steps > 10000) FailUsage("--method '{}': expected {} after the colon", step, kExpected);
  return steps;
}

constexpr const char* kSeed = "a whole number below 2^64";

// "name:STEPS:SEED"
void ReadStepsAndSeed(std::string_view step, int& steps, uint64_t& seed) {
  const size_t before_seed = step.find(':', step.find(':') + 1);
  steps = Steps(step.substr(0, before_seed));
  if (before_seed == std::string_view::npos) return;
  const std::optional<uint64_t> read = ParseNumber<uint64_t>(step.substr(before_seed + 1));
  if (!read) FailUsage("--method '{}': expected {} after the second colon", step, kSeed);
  seed = *read;
}

// The same, without what is as by default.
std::string WithStepsAndSeed(const std::string& name, int steps, int default_steps, uint64_t seed) {
  if (seed != 0) return Formatted("{}:{}:{}", name, steps, seed);
  return steps == default_steps ? name : Formatted("{}:{}", name, steps);
}

// "gptq:0.05:stored": words after the name, each kind at most once.
void ReadGptqWords(std::string_view step, QuantizeMethod& method) {
  bool damped = false;
  for (std::string_view rest = step; rest.contains(':');) {
    rest.remove_prefix(rest.find(':') + 1);
    const std::string_view word = rest.substr(0, rest.find(':'));
    if ((word == "stored" || word == "moved") && method.order == GptqOrder::kFalling) {
      method.order = word == "stored" ? GptqOrder::kStored : GptqOrder::kMoved;
      continue;
    }
    const std::optional<double> damping = ParseNumber<double>(word);
    if (damped || !damping || !(*damping > 0 && *damping <= 1))
      FailUsage(
          "--method '{}': got '{}', expected a damping above 0 and up to 1, or one of stored and moved, each "
          "once",
          step, word);
    method.damping = *damping;
    damped = true;
  }
}

}  // namespace

QuantizeMethod QuantizeMethod::Parse(std::string_view text) {
  QuantizeMethod method{.rounding = Rounding::kNone};
  for (const std::string_view step : Split(text)) {
    const std::string_view name = step.substr(0, step.find(':'));
    const bool rounded = method.rounding != Rounding::kNone;
    if (name == "hadamard" || name == "cayley" || name == "smoothquant" || step == "awq") {
      if (method.equivalent != Equivalent::kNone)
        FailUsage(
            "--method '{}': got two of hadamard, cayley, smoothquant and awq, expected one: each would undo the other; "
            "try one",
            text);
      if (rounded) FailUsage("--method '{}': {} changes weights before they become codes; try it first", text, step);
      method.equivalent = name == "hadamard"      ? Equivalent::kHadamard
                          : name == "cayley"      ? Equivalent::kCayley
                          : name == "smoothquant" ? Equivalent::kSmoothQuant
                                                  : Equivalent::kAwq;
      if (name == step) continue;
      if (name == "hadamard") {
        method.seed = Parameter<uint64_t>(step, kSeed);
      } else if (name == "cayley") {
        ReadStepsAndSeed(step, method.rotation_steps, method.seed);
      } else {
        method.alpha = Alpha(step);
      }
    } else if (step == "rtn" || name == "gptq" || name == "gptaq") {
      if (rounded) FailUsage("--method '{}': got two steps that round; try one", text);
      method.rounding = step == "rtn" ? Rounding::kNearest : name == "gptq" ? Rounding::kGptq : Rounding::kGptaq;
      if (name != step) ReadGptqWords(step, method);
    } else if (name == "signround" || name == "autoround") {
      if (rounded) FailUsage("--method '{}': got two steps that round; try one", text);
      method.rounding = name == "signround" ? Rounding::kSignRound : Rounding::kAutoRound;
      if (name == step) continue;
      if (name == "signround") {
        method.learning_steps = Steps(step);
      } else {
        ReadStepsAndSeed(step, method.learning_steps, method.learning_seed);
      }
    } else if (step == "quantease") {
      if (!rounded || method.quantease)
        FailUsage("--method '{}': quantease improves codes that another step made; try gptq+quantease", text);
      method.quantease = true;
    } else {
      FailUsage(
          "--method '{}': got step '{}', expected hadamard[:SEED], cayley[:STEPS[:SEED]], smoothquant[:ALPHA], awq, "
          "rtn, gptq[:DAMPING][:stored|:moved], gptaq likewise, signround[:STEPS], autoround[:STEPS[:SEED]] or "
          "quantease, joined by +",
          text, step);
    }
  }
  if (method.Clips() && method.rounding == Rounding::kNone) method.rounding = Rounding::kNearest;
  if (method.Clips() && method.order == GptqOrder::kMoved)
    FailUsage("--method '{}': awq chooses ranges before any weight has moved; try {}", text, "awq+gptq:stored");
  if (method.rounding == Rounding::kAutoRound && method.Clips())
    FailUsage("--method '{}': autoround does not begin with the ranges that awq chooses; try {}", text,
              "awq+signround, or autoround alone");
  if (method.rounding == Rounding::kAutoRound && method.quantease)
    FailUsage("--method '{}': quantease changes each matrix for its own output, autoround all for the layer's; try {}",
              text, "autoround alone, or signround+quantease");
  return method;
}

std::string QuantizeMethod::EquivalentText() const {
  if (equivalent == Equivalent::kNone) return "";
  if (equivalent == Equivalent::kAwq) return "awq";
  if (equivalent == Equivalent::kHadamard) return seed == 0 ? "hadamard" : Formatted("hadamard:{}", seed);
  if (equivalent == Equivalent::kCayley) return WithStepsAndSeed("cayley", rotation_steps, kCayleySteps, seed);
  return alpha ? Formatted("smoothquant:{}", *alpha) : "smoothquant";
}

std::string QuantizeMethod::RoundingText() const {
  if (rounding == Rounding::kNone) return "";
  const std::string learned = WithStepsAndSeed(rounding == Rounding::kAutoRound ? "autoround" : "signround",
                                               learning_steps, kSignRoundSteps, learning_seed);
  const std::string words =
      (damping == kGptqDamping ? "" : Formatted(":{}", damping)) + (order == GptqOrder::kStored  ? ":stored"
                                                                    : order == GptqOrder::kMoved ? ":moved"
                                                                                                 : "");
  const std::string name = rounding == Rounding::kNearest ? "rtn"
                           : rounding == Rounding::kGptq  ? "gptq" + words
                           : rounding == Rounding::kGptaq ? "gptaq" + words
                                                          : learned;
  return name + (quantease ? "+quantease" : "");
}

std::string QuantizeMethod::Text() const {
  const std::string before = EquivalentText(), codes = RoundingText();
  return before + (before.empty() || codes.empty() ? "" : "+") + codes;
}

}  // namespace tare
