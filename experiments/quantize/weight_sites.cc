// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/weight_sites.h"

#include <algorithm>

#include "experiments/model/family.h"
#include "quant/base/error.h"

namespace tare {
namespace {

bool IsWeight(Site site, const ModelConfig& config) {
  return site == Site::kLmHeadW ||
         std::ranges::find(FamilyOf(config).linear, site, &LinearPlace::weight) != FamilyOf(config).linear.end();
}

void CheckRule(const Rule& rule, const ModelConfig& config) {
  if (rule.sites.front() == Site::kLmHeadW && config.tied_embeddings)
    Fail("quantize, rule '{}': the head of this model is its embedding, which stays as stored; try without the rule",
         rule.text);
  RuleOptions known;
  known.mse = rule.options.mse;
  if (rule.options != known) Fail("quantize, rule '{}': got an option other than +mse; try it without", rule.text);
  if (rule.selector.layers && rule.selector.layers->first >= config.layers)
    Fail("quantize, rule '{}': selects layer {} and above, but the model has {} layers", rule.text,
         rule.selector.layers->first, config.layers);
}

}  // namespace

std::map<std::string, WeightSite> WeightSites(const ModelConfig& config) {
  const Family& family = FamilyOf(config);
  std::map<std::string, WeightSite> sites{{std::string(family.names.head), {Site::kLmHeadW, -1}}};
  for (int layer = 0; layer < config.layers; ++layer) {
    for (const LinearPlace& place : family.linear)
      sites[LayerTensor(config, layer, place.tensor) + ".weight"] = {place.weight, layer};
  }
  return sites;
}

const Rule* WeightRule(const Plan& plan, const WeightSite& weight) {
  const Rule* rule = plan.Match(weight.site, weight.layer, -1, 0);
  return rule == nullptr || rule->format == Format::kF32 ? nullptr : rule;
}

void CheckWeightPlan(const Plan& plan, const ModelConfig& config) {
  bool quantizes = false;
  for (const Rule& rule : plan.rules()) {
    if (rule.format == Format::kF32 || !IsWeight(rule.sites.front(), config)) continue;
    CheckRule(rule, config);
    quantizes = true;
  }
  if (!quantizes) Fail("quantize, plan '{}': quantizes no weights; try weights=int4/group64", plan.canonical());
}

}  // namespace tare
