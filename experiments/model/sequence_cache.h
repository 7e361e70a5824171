// SPDX-License-Identifier: Apache-2.0
// The keys and values of one sequence, a cache per layer: what a model decodes over. A copy is a fork (kv_cache.h).
#pragma once

#include <cstdint>
#include <vector>

#include "experiments/model/config.h"
#include "kernels/cache/kv_cache.h"

namespace tare {

class SequenceCache {
 public:
  // Empty. Throws Error where the plan or the model's heads are none that a cache takes.
  SequenceCache(const ModelConfig& config, const CachePlan& plan);

  int64_t tokens() const { return layers_.back().tokens(); }  // 0 before the first pass
  KvCache& Layer(int layer) { return layers_.at(static_cast<size_t>(layer)); }
  // Keeps the first `tokens`. Throws Error for more than there are.
  void Truncate(int64_t tokens);
  size_t Bytes() const;

 private:
  std::vector<KvCache> layers_;
};

// Throws Error, with the bytes, where a cache of so many tokens would be larger than the machine's memory.
void CheckCacheFits(const ModelConfig& config, const CachePlan& plan, int64_t tokens);

}  // namespace tare
