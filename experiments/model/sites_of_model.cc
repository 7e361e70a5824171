// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/sites_of_model.h"

#include <algorithm>

#include "experiments/model/attention/rotary.h"
#include "experiments/model/config/family.h"
#include "kernels/decode/decode_heads.h"

namespace tare {
namespace {

// The group of each head of a site.
std::vector<int> GroupsOf(const DecodeHeads& table, Site site, int heads) {
  std::vector<int> groups(static_cast<size_t>(heads));
  const auto put = [&](int head, size_t group) { groups.at(static_cast<size_t>(head)) = static_cast<int>(group); };
  for (size_t g = 0; g < table.groups().size(); ++g) {
    const DecodeHeads::Group& group = table.groups()[g];
    if (site == Site::kV) {
      for (const DecodeHeads::Product& product : group.products) put(product.v, g);
    } else if (site == Site::kDifference || site == Site::kLambda || site == Site::kHeadOut) {
      for (const DecodeHeads::Difference& difference : group.differences) put(difference.head, g);
    } else {
      const bool of_key = site == Site::kK || site == Site::kKNorm;
      for (const DecodeHeads::Row& row : group.rows) put(of_key ? row.k : row.q, g);
    }
  }
  return groups;
}

}  // namespace

ModelSites ModelSitesOf(const ModelConfig& config) {
  const std::vector<OutputHead> table = HeadTable(config);
  ModelSites sites{.family = config.family,
                   .layers = config.layers,
                   .head_dim = config.head_dim,
                   .maps = Maps(config),
                   .gated_ffn = std::ranges::contains(FamilyOf(config).linear, Site::kGateProjW, &LinearPlace::weight),
                   .tied_head = config.tied_embeddings,
                   .sinks = config.sinks,
                   .no_prerotary = WithoutRotary(config),
                   .experts = config.experts,
                   .decodes = config.projection == 0,
                   .heads = {},
                   .weights = {}};
  for (int layer = 0; !config.kinds.empty() && layer < config.layers; ++layer)
    sites.keys_layer.push_back(config.KeysLayer(layer));
  const CacheShape shape{
      .k_heads = config.kv_heads, .k_width = config.head_dim, .v_heads = config.kv_heads, .v_width = config.head_dim};
  const DecodeHeads decoded(table, config.heads, shape, 1.0f);  // the scale is that of no place
  for (const SiteInfo& info : kSites) {
    if (!config.kinds.empty()) {
      std::vector<int> having;
      for (int layer = 0; layer < config.layers; ++layer) {
        if (HasSite(info.site, config.Kind(layer))) having.push_back(layer);
      }
      if (std::ssize(having) < config.layers) sites.layers_of[info.site] = std::move(having);
    }
    if (config.experts > 0 && (info.of == SiteOf::kFeedForward || info.of == SiteOf::kGate))
      sites.layers_of[info.site] = {};
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

}  // namespace tare
