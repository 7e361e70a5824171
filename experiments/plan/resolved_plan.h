// SPDX-License-Identifier: Apache-2.0
// A plan resolved for a model, once: for each place, the rule that applies there and, for a rule with +static, its
// clip. The constructor refuses whatever cannot be run, so that the code that runs the plan needs no checks:
//
//   plan rule 'probs=u8/row': got a scale per row, expected one per block<N>; try simulating it
#pragma once

#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "experiments/plan/executed_plan.h"
#include "experiments/plan/model_sites.h"
#include "experiments/plan/static_source.h"
#include "quant/plan/plan.h"

namespace tare {

// kSimulated: every site quantized and dequantized, in f32. kExecuted: attention and linear layers on the integer
// kernels. kStored: weights as codes in a file; what the plan says of other sites is for those who run the model later.
enum class Carrying { kSimulated, kExecuted, kStored };

class ResolvedPlan {
 public:
  // statics: for rules with +static. Throws Error naming a rule that cannot be carried out on this model, what it says,
  // what was expected and what to try.
  ResolvedPlan(Plan plan, const ModelSites& model, Carrying carrying, const StaticSource& statics = {});

  const Plan& plan() const { return plan_; }
  Carrying carrying() const { return carrying_; }

  // Null: the values stay f32.
  const Rule* RuleAt(const SiteKey& key) const;
  // Where a rule with +static holds: the magnitude that becomes the largest code, one or one per channel.
  const std::vector<float>& ClipAt(const SiteKey& key) const { return clips_.at(key); }
  const std::map<SiteKey, std::vector<float>>& clips() const { return clips_; }
  // Of an executed plan: a layer's attention on the integer kernels; nothing: in f32.
  const std::vector<std::optional<ExecutedPlan>>& attention() const { return attention_; }

  // Whether a scale of the site is for a whole tensor or head of the current values, all of which must be seen before
  // any is used.
  bool NeedsSurvey(Site site) const;
  // Whether some scale spans rows: then a token's result depends on later tokens of its sequence.
  bool SpansRows() const;

 private:
  Plan plan_;
  Carrying carrying_;
  std::map<SiteKey, std::vector<float>> clips_;
  std::vector<std::optional<ExecutedPlan>> attention_;  // a layer each, or empty
};

// Of one rule.
bool NeedsSurvey(const Rule& rule);
// Beside the scales of blocks an f32 per tensor (NVFP4) that depends on the values: those of maps are 1 at most, and
// taken as 1.
bool HasTensorScale(const Rule& rule);
// Unsigned codes of a difference: of both signs, so with a zero point (quant/format/zero_point.h).
bool HasZeroPoint(const Rule& rule);

}  // namespace tare
