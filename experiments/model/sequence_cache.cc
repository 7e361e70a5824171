// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/sequence_cache.h"

namespace tare {

SequenceCache::SequenceCache(const ModelConfig& config, const CachePlan& plan) {
  const CacheShape shape{
      .k_heads = config.kv_heads, .k_width = config.head_dim, .v_heads = config.kv_heads, .v_width = config.head_dim};
  for (int layer = 0; layer < config.layers; ++layer) layers_.emplace_back(shape, plan);
}

void SequenceCache::Truncate(int64_t tokens) {
  for (KvCache& layer : layers_) layer.Truncate(tokens);
}

size_t SequenceCache::Bytes() const {
  size_t bytes = 0;
  for (const KvCache& layer : layers_) bytes += layer.Bytes();
  return bytes;
}

}  // namespace tare
