// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/quantize.h"

#include <algorithm>

#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "quant/format/hadamard.h"

namespace tare {
namespace {

// R^T H R, of the inputs x R. [n, n], exactly symmetric, as H is.
std::vector<float> RotatedMoments(const std::vector<float>& moments, const Hadamard& rotation) {
  const int64_t n = rotation.size();
  std::vector<float> half(moments.size()), rotated(moments.size());
  ParallelFor(static_cast<size_t>(n), [&](size_t r, int) { rotation.Rotate(&moments[r * n], &half[r * n]); });
  ParallelFor(static_cast<size_t>(n), [&](int64_t column, int) {
    float* const row = &rotated[column * n];
    for (int64_t i = 0; i < n; ++i) row[i] = half[i * n + column];
    rotation.Rotate(row, row);
  });
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < i; ++j) rotated[i * n + j] = rotated[j * n + i];
  }
  return rotated;
}

const StepKind& KindOf(std::string_view step, std::string_view text, StepKinds kinds) {
  const auto is_kind = [&](const StepKind* kind) {
    return step == kind->name || (!kind->options.empty() && step.substr(0, step.find(':')) == kind->name);
  };
  const auto found = std::ranges::find_if(kinds, is_kind);
  if (found != kinds.end()) return **found;
  std::vector<std::string> names;
  for (const StepKind* const kind : kinds) names.emplace_back(kind->name);
  const std::string* const nearest = NearestOf(step.substr(0, step.find(':')), names);
  FailUsage("--method '{}': got step '{}', expected {}, joined by +{}", text, step,
            Listed(
                kinds, ", ", [](const StepKind* kind) { return Formatted("{}{}", kind->name, kind->options); }, " or "),
            nearest == nullptr ? "" : "; the nearest is " + *nearest);
}

// Refuses a step of this place after the others of the method.
void CheckPlace(const QuantizeMethod& method, const StepKind& kind, std::string_view step, std::string_view text,
                StepKinds kinds) {
  if (kind.place == StepPlace::kWeights) {
    const auto changes = [](const StepKind* one) { return one->place == StepPlace::kWeights; };
    if (method.weights)
      FailUsage("--method '{}': got two of {}, expected one: each would undo the other; try one", text,
                Listed(kinds | std::views::filter(changes), ", ", &StepKind::name, " and "));
    if (method.codes) FailUsage("--method '{}': {} changes weights before they become codes; try it first", text, step);
  }
  if (kind.place == StepPlace::kCodes && method.codes)
    FailUsage("--method '{}': got two steps that round; try one", text);
  if (kind.place == StepPlace::kBetterCodes && (!method.codes || method.better))
    FailUsage("--method '{}': {} improves codes that another step made; try gptq+{}", text, kind.name, kind.name);
}

}  // namespace

const std::vector<float>& SharedInput::Rotated() {
  if (rotation == nullptr) return moments.values;
  if (rotated_.empty()) rotated_ = RotatedMoments(moments.values, *rotation);
  return rotated_;
}

std::vector<const Step*> QuantizeMethod::Steps() const {
  std::vector<const Step*> steps;
  for (const std::optional<Step>* step : {&weights, &codes, &better}) {
    if (step->has_value()) steps.push_back(&**step);
  }
  return steps;
}

std::string QuantizeMethod::RoundingText() const {
  return (codes ? codes->text : "") + (better ? "+" + better->text : "");
}

std::string QuantizeMethod::Text() const { return EquivalentText() + (weights && codes ? "+" : "") + RoundingText(); }

bool QuantizeMethod::RoundsByCalibration() const {
  return std::ranges::any_of(Steps(), [](const Step* step) { return step->RoundsByCalibration(); });
}

bool QuantizeMethod::ComparesWithStored() const { return std::ranges::any_of(Steps(), &Step::compares_with_stored); }

std::string StepsWithText(StepKinds kinds) {
  const auto reads_text = [](const StepKind* kind) {
    const Step step = kind->read(kind->name);
    return step.reads_text || step.RoundsByCalibration();
  };
  return Listed(kinds | std::views::filter(reads_text), ", ", &StepKind::name, " and ");
}

QuantizeMethod ParseMethod(std::string_view text, StepKinds kinds) {
  QuantizeMethod method{.codes = {}};
  for (std::string_view rest = text;;) {
    const size_t plus = rest.find('+');
    const std::string_view step = rest.substr(0, plus);
    const StepKind& kind = KindOf(step, text, kinds);
    CheckPlace(method, kind, step, text, kinds);
    (kind.place == StepPlace::kWeights ? method.weights
     : kind.place == StepPlace::kCodes ? method.codes
                                       : method.better) = kind.read(step);
    if (plus == std::string_view::npos) break;
    rest.remove_prefix(plus + 1);
  }
  const bool chooses_ends = method.weights && method.weights->RoundsByCalibration();
  if (chooses_ends && !method.codes) method.codes = QuantizeMethod().codes;
  if (chooses_ends && !method.codes->no_ends.empty()) FailUsage("--method '{}': {}", text, method.codes->no_ends);
  if (method.better && !method.codes->no_better.empty()) FailUsage("--method '{}': {}", text, method.codes->no_better);
  return method;
}

}  // namespace tare
