// SPDX-License-Identifier: Apache-2.0
#include "experiments/sites/plan_run.h"

#include <algorithm>

#include "quant/base/error.h"

namespace tare {
namespace {

constexpr Site kAttentionSites[] = {Site::kQ, Site::kK, Site::kV, Site::kAttnLogits, Site::kProbs, Site::kDifference};

bool OfLinear(Site site) {
  return (Site::kQProjW <= site && site <= Site::kDownProjIn) || site == Site::kLmHeadW || site == Site::kLmHeadIn;
}

bool HasKernel(Site site) {
  return OfLinear(site) || std::ranges::find(kAttentionSites, site) != std::end(kAttentionSites);
}

// Whether the plan quantizes something of this layer's attention.
bool Quantizes(const Plan& plan, int layer, int heads) {
  for (const Site site : kAttentionSites) {
    for (int head = 0; head < heads; ++head) {
      for (const int map : {1, 2}) {
        const Rule* rule = plan.Match(site, layer, head, map);
        if (rule != nullptr && rule->format != Format::kF32) return true;
      }
    }
  }
  return false;
}

std::vector<std::optional<ExecutedPlan>> ExecutedLayers(const Plan& plan, const ModelConfig& config) {
  for (const Rule& rule : plan.rules()) {
    if (rule.format != Format::kF32 && !std::ranges::all_of(rule.sites, HasKernel))
      Fail(
          "executed plan: got '{}', expected rules for weights, linear_in, lm_head, q, k, v, probs or difference, "
          "attn_logits; "
          "try it simulated",
          rule.text);
  }
  std::vector<std::optional<ExecutedPlan>> layers(static_cast<size_t>(config.layers));
  for (int layer = 0; layer < config.layers; ++layer) {
    if (Quantizes(plan, layer, config.heads)) layers[layer] = ExecutedPlanOf(plan, layer, config.heads);
  }
  return layers;
}

}  // namespace

PlanRun::PlanRun(Plan plan, Carrying carrying, const ModelConfig& config, StaticSource statics)
    : carrying_(carrying), quantizer_(std::move(plan), config, std::move(statics)) {
  if (carrying == Carrying::kExecuted) {
    attention_ = ExecutedLayers(quantizer_.plan(), config);
  } else if (!quantizer_.plan().empty()) {
    visitors_.push_back(&quantizer_);
  }
}

SiteVisitors PlanRun::Begin(Model& model) {
  model.ExecuteAttention(attention_);
  if (carrying_ == Carrying::kSimulated) {
    model.PlanLinear(plan(), LinearArithmetic::kFloat);
  } else {
    const auto clip = [this](const Rule& rule, Site input, int layer) {
      return quantizer_.static_clips().Of(rule, {.site = input, .layer = layer, .head = -1, .map = 0}).at(0);
    };
    model.PlanLinear(plan(), LinearArithmetic::kInteger, plan().HasStaticScales() ? InputClips(clip) : InputClips());
  }
  return visitors_;
}

}  // namespace tare
