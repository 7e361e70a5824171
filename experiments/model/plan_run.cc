// SPDX-License-Identifier: Apache-2.0
// The check of a cache policy, groups of heads, the plan of a prompt, the sites of a model, and PlanRun.
#include "experiments/model/plan_run.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <string>

#include "experiments/model/attention/sequence_cache.h"
#include "experiments/model/config/family.h"
#include "experiments/model/config/rotary.h"
#include "experiments/plan/refusals.h"
#include "kernels/decode/decode_heads.h"
#include "quant/base/find_in.h"
#include "quant/base/message.h"

namespace tare {
namespace {

bool IsOfAttention(const Rule& rule) { return std::ranges::contains(kAttentionSites, rule.sites.front()); }

void CheckPolicy(const CachePolicy& policy) {
  CachePolicy others = policy;
  others.first = 0;
  if (const std::string text = TextOf(others); !text.empty())
    FailUsage(
        "plan over a cache: got rules for attention beside {}, which moves the cache with every token, expected no "
        "policy but first=; try one without the other",
        text.substr(1));
}

// The group of each head of a site.
std::vector<int> GroupsOf(const DecodeHeads& table, Site site, int heads) {
  std::vector<int> groups(static_cast<size_t>(heads));
  const auto put = [&](int head, size_t group) { groups.at(static_cast<size_t>(head)) = static_cast<int>(group); };
  for (size_t g = 0; g < table.groups().size(); ++g) {
    const DecodeHeads::Group& group = table.groups()[g];
    if (site == Site::kV) {
      for (const DecodeHeads::Product& product : group.products) put(product.v, g);
    } else if (site == Site::kDifference || site == Site::kLambda || site == Site::kHeadOut ||
               site == Site::kAttnGate) {
      for (const DecodeHeads::Difference& difference : group.differences) put(difference.head, g);
    } else {
      const bool of_key = site == Site::kK || site == Site::kKNorm;
      for (const DecodeHeads::Row& row : group.rows) put(of_key ? row.k : row.q, g);
    }
  }
  return groups;
}

}  // namespace

PromptPlan PromptPlanOf(const Plan& plan, const ModelSites& model, const CachePolicy& policy) {
  PromptPlan parts{.others = plan.Select(std::not_fn(IsOfAttention)), .attention = {}};
  const Plan attention = plan.Select(IsOfAttention);
  if (std::ranges::none_of(kAttentionSites, [&](Site site) { return attention.Touches(site); })) return parts;
  parts.attention = ResolvedPlan(attention, model, Carrying::kExecuted).attention();
  for (const Rule& rule : attention.rules()) CheckUse(rule, Use::kInParts);
  CheckPolicy(policy);
  return parts;
}

ModelSites ModelSitesOf(const ModelConfig& config) {
  const std::vector<OutputHead> table = HeadTable(config);
  ModelSites sites{.family = config.family,
                   .layers = config.layers,
                   .head_dim = config.head_dim,
                   .value_dim = config.value_dim,
                   .maps = Maps(config),
                   .gated_ffn = std::ranges::contains(FamilyOf(config).linear, Site::kGateProjW, &LinearPlace::weight),
                   .tied_head = config.tied_embeddings,
                   .sinks = config.sinks,
                   .row_weights = config.row_weights,
                   .no_prerotary = WithoutRotary(config),
                   .experts = config.experts,
                   .decodes = config.projection == 0 && !config.pools};
  for (int layer = 0; layer < config.layers; ++layer) {
    if (!config.kinds.empty()) sites.keys_layer.push_back(config.KeysLayer(layer));
    if (config.CachesLatents(layer)) sites.latents[layer] = CacheShapeOf(config, layer);
  }
  const DecodeHeads decoded(table, config.heads, CacheShapeOf(config), 1.0f);  // the scale is that of no place
  for (const SiteInfo& info : kSites) {
    std::vector<int> having;
    for (int layer = 0; layer < config.layers; ++layer) {
      if (HasSite(info.site, config, layer)) having.push_back(layer);
    }
    if (std::ssize(having) < config.layers || IsOfScan(info.site)) sites.layers_of[info.site] = std::move(having);
    const int heads = HeadsOf(info.site, config);
    for (int head = 0; head < heads; ++head) sites.heads[info.site].push_back(MapOf(table, info.site, head));
    if (heads > 0 && !IsOfExperts(info.site)) sites.groups[info.site] = GroupsOf(decoded, info.site, heads);
  }
  return sites;
}

ModelSites ModelSitesOf(const Model& model) {
  ModelSites sites = ModelSitesOf(model.config());
  const auto add = [&](const SiteKey& key, const WeightMatrix& weight) {
    StoredWeight& stored = sites.weights[key];
    stored.in = weight.in;
    if (weight.quantized != nullptr) {
      stored.format = weight.quantized->format;
      stored.group = weight.quantized->group;
      stored.rotation = weight.quantized->rotation;
    }
    if (weight.foreign == nullptr || !weight.foreign->HasCodes()) return;
    stored.scheme = weight.foreign->scheme();
    stored.input_scale = weight.foreign->input_scale();
    if (const std::optional<IntegerForm> form = weight.foreign->integers()) {
      stored.format = form->format;
      stored.group = form->group;
    }
  };
  for (int layer = 0; layer < sites.layers; ++layer) {
    const LayerWeights& weights = model.layers()[static_cast<size_t>(layer)];
    for (const LinearLayer& linear : LinearLayersOf(model.config(), layer))
      add(linear.WeightKey(), WeightsOf(weights, linear).stored());
  }
  add({Site::kLmHeadW}, model.head().stored());
  return sites;
}

PlanRun::PlanRun(Plan plan, Carrying carrying, const ModelSites& model, const StaticSource& statics,
                 const std::optional<CachePlan>& cache)
    : resolved_(std::move(plan), model, carrying, statics),
      cache_(CachePlanOf(resolved_.plan(), cache)),
      sites_(model),
      means_(resolved_),
      quantizer_(resolved_),
      sink_(resolved_.plan()) {
  if (cache_) {
    cache_->held = std::make_shared<HeldKeys>();
    for (const Rule& rule : cache_->rules.rules())  // f32, as by default, asks nothing of a model without attention
      if (rule.format != Format::kF32 || !model.decodes || model.Has(rule.sites.front())) CheckRule(rule, model);
    CheckDecodes(resolved_);
    for (const auto& [cache_site, site] : {std::pair{Site::kCacheK, Site::kK}, {Site::kCacheV, Site::kV}}) {
      for (const SiteKey& key : model.Keys(cache_site)) {
        const Rule& rule = *cache_->rules.Match(key);
        if (!rule.options.static_scale) continue;
        if (!statics) CheckUse(rule, Use::kUnmeasured);
        cache_->clips[key] = statics(rule, {.site = site, .layer = key.layer}).front();
      }
    }
  }
  if (carrying == Carrying::kSimulated && !resolved_.plan().empty()) visitors_ = {&means_, &quantizer_, &sink_};
  const auto simulates = [this](Site site) { return resolved_.Simulates(site); };
  if (carrying == Carrying::kExecuted && std::ranges::any_of(kSites, simulates, &SiteInfo::site))
    visitors_ = {&quantizer_};
}

PlanRun::PlanRun(PromptPlan plan, const ModelSites& model, const CachePlan& cache, const StaticSource& statics)
    : PlanRun(std::move(plan.others), Carrying::kExecuted, model, statics, cache) {
  prompts_ = std::move(plan.attention);
}

bool PlanRun::ExecutesAttention() const {
  return std::ranges::any_of(resolved_.attention(), &std::optional<ExecutedPlan>::has_value);
}

void PlanRun::RefuseCache(std::string_view where) const {
  if (cache_)
    Fail("{}: got {}, expected a plan without cache_k and cache_v, as nothing is decoded here; try tare eval", where,
         Name(*cache_));
}

std::optional<KeyValueBits> PlanRun::TakeKeyValueBits() {
  if (!cache_) return KeyValueBitsOf(plan(), plan(), sites_);
  const HeldKeys held = std::exchange(*cache_->held, {});
  if (held.all > 0 && held.rounded == 0)
    Fail(
        "cache {}: got sequences so short that no key was rounded, expected some beyond first=, last= and the newest "
        "page of {} tokens, which stay in f32; try longer texts, or a scale per token",
        Name(*cache_), kPageTokens);
  return KeyValueBitsOf(plan(), cache_->rules, sites_,
                        held.all > 0 ? std::optional(held.rounded / held.all) : std::nullopt);
}

SiteVisitors PlanRun::Begin(Model& model, const Model::PlanProgress& progress) {
  model.CarryOut({resolved_, prompts_, streams_}, progress);
  const Rule* const before = FindWhere(plan().rules(), [](const Rule& rule) {
    return rule.options.prerotary && rule.format != Format::kF32 && !IsCache(rule.sites.front());
  });
  if (before != nullptr) {
    std::vector<std::shared_ptr<const KeyRotary>> rotaries;
    for (int layer = 0; layer < model.config().layers; ++layer)
      rotaries.push_back(KeyRotaryOf(model.config(), layer, Formatted("plan rule '{}'", before->text)));
    quantizer_.SetKeyRotaries(std::move(rotaries));
  }
  return visitors_;
}

}  // namespace tare
