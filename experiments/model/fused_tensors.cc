// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/fused_tensors.h"

#include <algorithm>

#include "experiments/model/family.h"
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

void SplitFused(const ModelConfig& config, Checkpoint& files) {
  for (const FusedTensor& fused : FusedTensors(config)) files.Split(fused.name, fused.parts);
  for (int layer = 0; config.experts > 0 && layer < config.layers; ++layer) {
    for (const LinearPlace& place : FamilyOf(config).linear) {
      if (place.experts.empty()) continue;
      const MatrixShape all = ShapeOf(place.weight, config);
      const Checkpoint::Experts shape{.count = config.experts, .out = all.out / config.experts, .in = all.in};
      const std::string stored = LayerTensor(config, layer, place.experts),
                        name = LayerTensor(config, layer, place.tensor);
      if (const ForeignMatrix* codes = files.FindForeign(name + ".weight"); codes != nullptr && codes->out() != all.out)
        Fail("tensor '{}': got {} rows of all experts, expected {} from config.json, of num_local_experts {}",
             name + ".weight", codes->out(), all.out, config.experts);
      files.StackMatrix(stored, name + ".weight", shape);
      files.StackVector(stored + "_bias", name + ".bias", shape);
    }
  }
}

Checkpoint OpenSplit(const std::filesystem::path& path, const ModelConfig& config) {
  Checkpoint files(path);
  SplitFused(config, files);
  return files;
}

}  // namespace tare
