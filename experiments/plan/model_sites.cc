// SPDX-License-Identifier: Apache-2.0
#include "experiments/plan/model_sites.h"

#include <algorithm>

namespace tare {

bool ModelSites::Has(Site site) const {
  const auto some = layers_of.find(site);
  if (some != layers_of.end() && some->second.empty()) return false;
  if (IsOfScan(site)) return some != layers_of.end();
  if (IsOfExperts(site)) return experts > 0;
  if (site == Site::kDifference) return maps == 2;
  if (IsCache(site)) return decodes;
  if (Info(site).of == SiteOf::kGate) return gated_ffn;
  if (Info(site).of == SiteOf::kLambda) return heads.contains(Site::kLambda);
  if (site == Site::kQNorm || site == Site::kKNorm || site == Site::kAttnGate) return heads.contains(site);
  return true;
}

bool ModelSites::HasIn(Site site, int layer) const {
  const auto some = layers_of.find(site);
  return Has(site) && (some == layers_of.end() || std::ranges::contains(some->second, layer));
}

int ModelSites::Heads(Site site) const {
  const auto found = heads.find(site);
  return found == heads.end() ? 0 : static_cast<int>(found->second.size());
}

std::optional<int> ModelSites::GroupAt(const SiteKey& key) const {
  const auto found = groups.find(key.site);
  return !key.head || found == groups.end() ? std::nullopt
                                            : std::optional(found->second.at(static_cast<size_t>(*key.head)));
}

std::vector<SiteKey> ModelSites::Keys(Site site) const {
  std::vector<SiteKey> keys;
  if (!Has(site)) return keys;
  if (!ClassOf(site).dimensions.contains('l')) return {{site}};
  for (int layer = 0; layer < layers; ++layer) {
    if (!HasIn(site, layer)) continue;
    if (ClassOf(site).dimensions.contains('e')) {
      for (int expert = 0; expert < experts; ++expert) keys.push_back({.site = site, .layer = layer, .expert = expert});
      continue;
    }
    if (!heads.contains(site)) keys.push_back({site, layer});
    for (int head = 0; head < Heads(site); ++head)
      keys.push_back({site, layer, head, heads.at(site)[static_cast<size_t>(head)]});
  }
  return keys;
}

}  // namespace tare
