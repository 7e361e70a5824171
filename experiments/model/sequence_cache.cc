// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/sequence_cache.h"

#include "experiments/plan/cache_plan.h"
#include "quant/base/error.h"
#include "quant/base/memory.h"

namespace tare {
namespace {

CacheShape ShapeOf(const ModelConfig& config) {
  return {
      .k_heads = config.kv_heads, .k_width = config.head_dim, .v_heads = config.kv_heads, .v_width = config.head_dim};
}

}  // namespace

SequenceCache::SequenceCache(const ModelConfig& config, const CachePlan& plan) {
  const CacheShape shape = ShapeOf(config);
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

void CheckCacheFits(const ModelConfig& config, const CachePlan& plan, int64_t tokens) {
  const double bytes = config.layers * CacheBytes(ShapeOf(config), plan, tokens);
  const double memory = MachineMemory();
  if (bytes > memory)
    Fail("cache {}: {} tokens take {:.1f} GB, more than the {:.1f} GB of memory; try fewer tokens or fewer bits",
         Name(plan), tokens, bytes / 1e9, memory / 1e9);
}

}  // namespace tare
