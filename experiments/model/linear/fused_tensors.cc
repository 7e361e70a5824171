// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/linear/fused_tensors.h"

#include <algorithm>

#include "experiments/model/config/family.h"
#include "quant/base/error.h"

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

Checkpoint::Experts StackedTensor::Parts(std::string_view suffix) const {
  Checkpoint::Experts parts{.names = experts, .out = shape.out, .in = shape.in};
  for (std::string& part : parts.names) part += suffix;
  return parts;
}

std::vector<StackedTensor> StackedTensors(const ModelConfig& config) {
  std::vector<StackedTensor> all;
  for (int layer = 0; config.experts > 0 && layer < config.layers; ++layer) {
    for (const LinearLayer& linear : LinearLayersOf(config, layer)) {
      if (linear.place->stacked.empty()) continue;
      if (linear.expert == 0)
        all.push_back({LayerTensor(config, layer, linear.place->stacked), ShapeOf(linear.place->weight, config), {}});
      all.back().experts.push_back(linear.Tensor(config));
    }
  }
  return all;
}

void SplitFused(const ModelConfig& config, Checkpoint& files) {
  for (const FusedTensor& fused : FusedTensors(config)) files.Split(fused.name, fused.parts);
  for (const StackedTensor& stacked : StackedTensors(config)) {
    files.SplitMatrices(stacked.name, stacked.Parts(".weight"));
    files.SplitMatrices(stacked.name + ".weight", stacked.Parts(".weight"));  // as MXFP4 is read
    files.SplitVectors(stacked.name + "_bias", stacked.Parts(".bias"));
  }
}

Checkpoint OpenSplit(const std::filesystem::path& path, const ModelConfig& config) {
  Checkpoint files(path);
  SplitFused(config, files);
  return files;
}

}  // namespace tare
