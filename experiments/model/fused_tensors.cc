// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/fused_tensors.h"

#include <algorithm>

#include "experiments/model/family.h"

namespace tare {

std::vector<FusedTensor> FusedTensors(const ModelConfig& config) {
  const Family& family = FamilyOf(config);
  std::vector<FusedTensor> all;
  if (std::ranges::all_of(family.linear, [](const LinearPlace& place) { return place.fused.empty(); })) return all;
  for (int layer = 0; layer < config.layers; ++layer) {
    const auto first = std::ssize(all);
    for (const LinearPlace& place : LinearOf(family, config, layer)) {
      if (place.fused.empty()) continue;
      for (const char* part : {".weight", ".bias"}) {
        const std::string name = LayerTensor(config, layer, place.fused) + part;
        auto found = std::find_if(all.begin() + first, all.end(), [&](const FusedTensor& t) { return t.name == name; });
        if (found == all.end()) found = all.insert(all.end(), {.name = name, .parts = {}});
        found->parts.push_back({LayerTensor(config, layer, place.tensor) + part, ShapeOf(place.weight, config).out});
      }
    }
  }
  return all;
}

void SplitFused(const ModelConfig& config, Checkpoint& files) {
  for (const FusedTensor& fused : FusedTensors(config)) files.Split(fused.name, fused.parts);
}

Checkpoint OpenSplit(const std::filesystem::path& path, const ModelConfig& config) {
  Checkpoint files(path);
  SplitFused(config, files);
  return files;
}

}  // namespace tare
