// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/sites_of_model.h"

#include <algorithm>

#include "experiments/model/family.h"

namespace tare {

ModelSites ModelSitesOf(const ModelConfig& config) {
  const std::vector<OutputHead> table = HeadTable(config);
  ModelSites sites{.family = config.family,
                   .layers = config.layers,
                   .maps = Maps(config),
                   .gated_ffn = std::ranges::contains(FamilyOf(config).linear, Site::kGateProjW, &LinearPlace::weight),
                   .tied_head = config.tied_embeddings,
                   .decodes = config.projection == 0,
                   .heads = {},
                   .weights = {}};
  for (const SiteInfo& info : kSites) {
    for (int head = 0; head < HeadsOf(info.site, config); ++head)
      sites.heads[info.site].push_back(MapOf(table, info.site, head));
  }
  return sites;
}

ModelSites ModelSitesOf(const Model& model) {
  ModelSites sites = ModelSitesOf(model.config());
  const auto add = [&](const SiteKey& key, const WeightMatrix& weight) {
    StoredWeight& stored = sites.weights[key];
    stored.in = weight.in;
    if (weight.quantized == nullptr) return;
    stored.format = weight.quantized->format;
    stored.group = weight.quantized->group;
  };
  for (int layer = 0; layer < sites.layers; ++layer) {
    const LayerWeights& weights = model.layers()[static_cast<size_t>(layer)];
    for (const LinearPlace& place : FamilyOf(model.config()).linear)
      add({place.weight, layer}, (weights.*place.linear).weight);
  }
  add({Site::kLmHeadW}, model.head().weight);
  return sites;
}

}  // namespace tare
