// SPDX-License-Identifier: Apache-2.0
#include "experiments/plan/executed_plan.h"

#include <algorithm>
#include <array>

#include "experiments/plan/resolved_plan.h"
#include "experiments/plan/rule_checks.h"
#include "kernels/attention/row_block.h"
#include "quant/base/error.h"
#include "quant/base/formatted.h"

namespace tare {
namespace {

using Kind = Granularity::Kind;

constexpr const char* kSimulate = "simulating it";

// The rules of one layer's attention, one per site for all its heads and maps; null: f32.
struct LayerRules {
  const Rule *q, *k, *v, *logits, *probs, *difference;

  // Any of them; null where the layer's attention is in f32.
  const Rule* First() const {
    for (const Rule* rule : {q, k, v, logits, probs, difference}) {
      if (rule != nullptr) return rule;
    }
    return nullptr;
  }
};

const Rule* OneRule(const ResolvedPlan& plan, const ModelSites& model, Site site, int layer) {
  const Rule* one = nullptr;
  bool seen = false;
  for (const SiteKey& key : model.Keys(site)) {
    if (key.layer != layer) continue;
    const Rule* rule = plan.RuleAt(key);
    if (seen && rule != one)
      RefuseRule(rule == nullptr ? *one : *rule, Formatted("a rule for some heads or maps of layer {}", layer),
                 "one for all of them", kSimulate);
    one = rule;
    seen = true;
  }
  return one;
}

// Options that change scales have no kernel; +smooth and +hadamard are carried out around it for q, k and v.
void CheckRows(const Rule& rule) {
  RuleOptions known;
  known.smooth = rule.options.smooth;
  known.hadamard = rule.options.hadamard;
  if (rule.options != known) RefuseRule(rule, TextOf(rule.options), "no option but +smooth and +hadamard", kSimulate);
}

void CheckNoOptions(const Rule& rule) {
  if (rule.options != RuleOptions{}) RefuseRule(rule, TextOf(rule.options), "no options", kSimulate);
}

void RequireBeside(const LayerRules& rules, const Rule* rule, const char* site, int layer, const char* expected) {
  if (rule == nullptr) RefuseRule(*rules.First(), Formatted("{} in f32 in layer {}", site, layer), expected, kSimulate);
}

Format KernelFormat(const Rule& rule) {
  if (!std::ranges::contains(std::array{Format::kInt8, Format::kInt6, Format::kInt4}, rule.format))
    RefuseRule(rule, Name(rule.format), "int8, int6 or int4", kSimulate);
  return rule.format;
}

Format TokenFormat(const Rule& rule) {
  if (rule.granularity.kind != Kind::kToken) RefuseRule(rule, ScaleText(rule), "one per token", kSimulate);
  CheckRows(rule);
  return KernelFormat(rule);
}

void SetProbabilities(const Rule& rule, AttentionPlan& plan) {
  if (rule.granularity.kind != Kind::kBlock) RefuseRule(rule, ScaleText(rule), "one per block<N>", kSimulate);
  if (rule.options.unnormalized) RefuseRule(rule, "+unnormalized", "maps divided by the sum of their codes", kSimulate);
  CheckNoOptions(rule);
  plan.probs = rule.format;
  plan.block = rule.granularity.n;
  if (plan.block < kTile || plan.block > kLargestBlock || plan.block % kTile != 0)
    RefuseRule(rule, Formatted("blocks of {} keys", plan.block), "64 to 1024, in steps of 64", "block64");
}

void SetValues(const Rule& rule, ExecutedPlan& plan) {
  CheckRows(rule);
  plan.attention.v = KernelFormat(rule);
  plan.smooth_v = rule.options.smooth;
  plan.rotated_v = rule.options.hadamard;
  plan.attention.v_scale = AttentionPlan::ValueScale::kSequence;
  if (rule.granularity.kind == Kind::kChannel) return;
  plan.attention.v_scale = AttentionPlan::ValueScale::kBlock;
  if (rule.granularity.kind != Kind::kBlockChannel || rule.granularity.n != plan.attention.block)
    RefuseRule(rule, ScaleText(rule),
               Formatted("one per channel, or per block{}.channel as in probs or difference", plan.attention.block),
               kSimulate);
}

void SetLogits(const Rule& rule, const Rule& k, AttentionPlan& plan) {
  if (rule.granularity.kind != Kind::kRow) RefuseRule(rule, ScaleText(rule), "one per row", kSimulate);
  CheckNoOptions(rule);
  if (k.options.smooth)
    RefuseRule(k, "+smooth with a rule for attn_logits, whose codes it would shift", "k without it", kSimulate);
  plan.logits = rule.format;
}

}  // namespace

std::optional<ExecutedPlan> ExecutedPlanOf(const ResolvedPlan& plan, const ModelSites& model, int layer) {
  const auto one = [&](Site site) {
    const bool shared = (site == Site::kK || site == Site::kV) && !model.keys_layer.empty();
    return OneRule(plan, model, site, shared ? model.keys_layer[static_cast<size_t>(layer)] : layer);
  };
  const LayerRules rules{one(Site::kQ),          one(Site::kK),     one(Site::kV),
                         one(Site::kAttnLogits), one(Site::kProbs), one(Site::kDifference)};
  if (rules.First() == nullptr) return std::nullopt;
  const bool early = rules.difference != nullptr;
  const Rule* p = early ? rules.difference : rules.probs;
  RequireBeside(rules, rules.q, "q", layer, "int8, int6 or int4 per token");
  RequireBeside(rules, rules.k, "k", layer, "int8, int6 or int4 per token");
  RequireBeside(rules, p, "probs", layer, "u8, u6 or u4 per block<N>, or a difference");
  RequireBeside(rules, rules.v, "v", layer, "int8, int6 or int4 per block<N>.channel or channel");
  ExecutedPlan executed;
  executed.attention.q = TokenFormat(*rules.q);
  executed.attention.k = TokenFormat(*rules.k);
  executed.smooth_q = rules.q->options.smooth;
  executed.smooth_k = rules.k->options.smooth;
  if (rules.q->options.hadamard != rules.k->options.hadamard)
    RefuseRule(rules.q->options.hadamard ? *rules.q : *rules.k, "a rotation that q and k do not share",
               "the same +hadamard for both, as products of rotated rows need", kSimulate);
  executed.rotated_qk = rules.k->options.hadamard;
  executed.attention.order = early ? AttentionPlan::Order::kEarly : AttentionPlan::Order::kLate;
  SetProbabilities(*p, executed.attention);
  SetValues(*rules.v, executed);
  if (rules.logits != nullptr) SetLogits(*rules.logits, *rules.k, executed.attention);
  return executed;
}

ExecutedPlan ExecutedPlanOfText(const std::string& where, const std::string& plan, int heads) {
  ModelSites layer{.family = "one layer", .layers = 1, .maps = 2, .tied_head = false, .heads = {}, .weights = {}};
  for (const Site site : {Site::kQ, Site::kK, Site::kV, Site::kAttnLogits, Site::kProbs, Site::kDifference})
    layer.heads[site].resize(static_cast<size_t>(heads));
  const ResolvedPlan resolved(Plan::Parse(plan), layer, Carrying::kExecuted);
  if (resolved.attention().empty() || !resolved.attention().front())
    Fail("{}, plan '{}': got no rule for attention, expected q, k, v and probs or difference", where, plan);
  return *resolved.attention().front();
}

}  // namespace tare
