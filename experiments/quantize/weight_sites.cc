// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/weight_sites.h"

#include "experiments/model/family.h"

namespace tare {

std::map<std::string, SiteKey> WeightSites(const ModelConfig& config) {
  const Family& family = FamilyOf(config);
  std::map<std::string, SiteKey> sites{{std::string(family.names.head), {Site::kLmHeadW}}};
  for (int layer = 0; layer < config.layers; ++layer) {
    for (const LinearPlace& place : family.linear)
      sites[LayerTensor(config, layer, place.tensor) + ".weight"] = {place.weight, layer};
  }
  return sites;
}

}  // namespace tare
