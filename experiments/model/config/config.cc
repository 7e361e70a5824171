// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/config/config.h"

#include "quant/base/error.h"

namespace tare {

int ModelConfig::KeysLayer(int layer) const {
  switch (Kind(layer)) {
    case LayerKind::kAttention:
      return layer;
    case LayerKind::kSharedAttention:
      for (int from = layer - 1; from >= 0; --from) {
        if (Kind(from) == LayerKind::kAttention) return from;
      }
      TARE_CHECK(false);
    default:
      return -1;
  }
}

std::string KindText(const ModelConfig& config, int layer) {
  switch (config.Kind(layer)) {
    case LayerKind::kAttention:
      return config.Window(layer) > 0 ? "window" : "full";
    case LayerKind::kSharedAttention:
      return "shared";
    case LayerKind::kMamba:
      return "mamba";
    case LayerKind::kMemoryUnit:
      return "memory unit";
  }
  TARE_CHECK(false);
}

}  // namespace tare
