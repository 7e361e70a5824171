// SPDX-License-Identifier: Apache-2.0
// See executed_plan.h.
#include "experiments/model/executed_plan.h"

#include "kernels/attention/prefix_mean.h"
#include "kernels/attention/row_block.h"
#include "quant/base/error.h"

namespace tare {
namespace {

using Kind = Granularity::Kind;

bool IsF32(const Rule* rule) { return rule == nullptr || rule->format == Format::kF32; }

// The one rule of a site in this layer; null for f32.
const Rule* OneRule(const Plan& plan, Site site, int layer, int heads) {
  const Rule* rule = plan.Match(site, layer, 0, 1);
  for (int head = 0; head < heads; ++head) {
    for (const int map : {1, 2}) {
      const Rule* other = plan.Match(site, layer, head, map);
      if (other != rule && !(IsF32(rule) && IsF32(other)))
        Fail("executed plan, layer {}: {} differs between heads or maps; expected one rule for all; try it simulated",
             layer, kSites[static_cast<size_t>(site)].name);
    }
  }
  return IsF32(rule) ? nullptr : rule;
}

[[noreturn]] void Refuse(const Rule& rule, const char* expected) {
  Fail("executed plan: got '{}', expected {}; try it simulated", rule.text, expected);
}

const Rule& Needed(const Rule* rule, const char* site, const char* expected) {
  if (rule == nullptr) Fail("executed plan: {} is f32, expected {}; try it simulated", site, expected);
  return *rule;
}

// Options that change scales or leave values out have no kernel; +smooth has for q, k and v.
void CheckOptions(const Rule& rule, bool smooth) {
  const RuleOptions& o = rule.options;
  if (o.static_scale || o.percentile || o.mse || o.maxshift || o.keep > 0 || (o.smooth && !smooth))
    Refuse(rule, smooth ? "no option but smooth" : "no options");
}

Format TokenFormat(const Rule* found, const char* site) {
  const Rule& rule = Needed(found, site, "int8, int6 or int4 a token");
  if (rule.granularity.kind != Kind::kToken) Refuse(rule, "a scale a token");
  CheckOptions(rule, true);
  return rule.format;
}

void SetProbabilities(const Rule& rule, AttentionPlan& plan) {
  if (rule.granularity.kind != Kind::kBlock) Refuse(rule, "a scale a block");
  CheckOptions(rule, false);
  plan.probs = rule.format;
  plan.block = rule.granularity.n;
  if (plan.block < kTile || plan.block > kLargestBlock || plan.block % kTile != 0)
    Refuse(rule, "blocks of 64 to 1024 keys, in steps of 64");
}

void SetValues(const Rule& rule, ExecutedPlan& plan) {
  CheckOptions(rule, true);
  plan.attention.v = rule.format;
  plan.smooth_v = rule.options.smooth;
  plan.attention.v_scale = AttentionPlan::ValueScale::kSequence;
  if (rule.granularity.kind == Kind::kChannel) return;
  plan.attention.v_scale = AttentionPlan::ValueScale::kBlock;
  if (rule.granularity.kind != Kind::kBlockChannel) Refuse(rule, "a scale a channel, or a block and channel");
  if (rule.granularity.n != plan.attention.block) Refuse(rule, "v in the same blocks as probs or difference");
}

const float* MeanOf(HeadsView<const float> x, std::vector<float>& mean) {
  mean.resize(static_cast<size_t>(x.heads) * x.width);
  MeanOfPrefix(x, mean.data());
  return mean.data();
}

}  // namespace

AttentionPlan ExecutedPlan::For(const AttentionProblem& sequence, SmoothingMeans& means) const {
  AttentionPlan plan = attention;
  if (smooth_q) plan.q_mean = MeanOf(sequence.q, means.q);
  if (smooth_k) plan.k_mean = MeanOf(sequence.k, means.k);
  if (smooth_v) plan.v_mean = MeanOf(sequence.v, means.v);
  return plan;
}

ExecutedPlan ExecutedPlanOf(const Plan& plan, int layer, int heads) {
  ExecutedPlan executed;
  const Rule* k = OneRule(plan, Site::kK, layer, heads);
  const Rule* q = OneRule(plan, Site::kQ, layer, heads);
  executed.attention.q = TokenFormat(q, "q");
  executed.attention.k = TokenFormat(k, "k");
  executed.smooth_q = q->options.smooth;
  executed.smooth_k = k->options.smooth;
  const Rule* difference = OneRule(plan, Site::kDifference, layer, heads);
  const Rule* probs = OneRule(plan, Site::kProbs, layer, heads);
  executed.attention.order = difference == nullptr ? AttentionPlan::Order::kLate : AttentionPlan::Order::kEarly;
  SetProbabilities(Needed(difference == nullptr ? probs : difference, "probs", "u8, u6 or u4 a block, or a difference"),
                   executed.attention);
  SetValues(Needed(OneRule(plan, Site::kV, layer, heads), "v", "int8, int6 or int4 a block and channel"), executed);
  if (const Rule* logits = OneRule(plan, Site::kAttnLogits, layer, heads)) {
    if (logits->granularity.kind != Kind::kRow) Refuse(*logits, "a scale a row");
    if (executed.smooth_k) Refuse(*logits, "k without +smooth, which would shift the logits before their codes");
    CheckOptions(*logits, false);
    executed.attention.logits = logits->format;
  }
  return executed;
}

}  // namespace tare
