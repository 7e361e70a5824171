// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/weight_sites.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "quant/base/error.h"

namespace tare {
namespace {

constexpr std::array<std::pair<std::string_view, Site>, 7> kOfLayer{{
    {"self_attn.q_proj.weight", Site::kQProjW},
    {"self_attn.k_proj.weight", Site::kKProjW},
    {"self_attn.v_proj.weight", Site::kVProjW},
    {"self_attn.o_proj.weight", Site::kOProjW},
    {"mlp.gate_proj.weight", Site::kGateProjW},
    {"mlp.up_proj.weight", Site::kUpProjW},
    {"mlp.down_proj.weight", Site::kDownProjW},
}};

bool IsWeight(Site site) {
  return site == Site::kLmHeadW ||
         std::ranges::find(kOfLayer, site, &decltype(kOfLayer)::value_type::second) != kOfLayer.end();
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

std::optional<WeightSite> WeightSiteOf(std::string_view tensor) {
  if (tensor == "lm_head.weight") return WeightSite{Site::kLmHeadW, -1};
  constexpr std::string_view kPrefix = "model.layers.";
  if (!tensor.starts_with(kPrefix)) return std::nullopt;
  tensor.remove_prefix(kPrefix.size());
  int layer = 0;
  const auto [end, error] = std::from_chars(tensor.data(), tensor.data() + tensor.size(), layer);
  if (error != std::errc() || layer < 0 || end == tensor.data() + tensor.size() || *end != '.') return std::nullopt;
  const std::string_view rest = tensor.substr(static_cast<size_t>(end - tensor.data()) + 1);
  const auto found = std::ranges::find(kOfLayer, rest, &decltype(kOfLayer)::value_type::first);
  return found == kOfLayer.end() ? std::nullopt : std::optional(WeightSite{found->second, layer});
}

const Rule* WeightRule(const Plan& plan, const WeightSite& weight) {
  const Rule* rule = plan.Match(weight.site, weight.layer, -1, 0);
  return rule == nullptr || rule->format == Format::kF32 ? nullptr : rule;
}

void CheckWeightPlan(const Plan& plan, const ModelConfig& config) {
  bool quantizes = false;
  for (const Rule& rule : plan.rules()) {
    if (rule.format == Format::kF32 || !IsWeight(rule.sites.front())) continue;
    CheckRule(rule, config);
    quantizes = true;
  }
  if (!quantizes) Fail("quantize, plan '{}': quantizes no weights; try weights=int4/group64", plan.canonical());
}

}  // namespace tare
