// SPDX-License-Identifier: Apache-2.0
// The keys and values of one sequence, one cache per layer, for decoding. A copy is a fork (kv_cache.h).
#pragma once

#include <cstdint>
#include <vector>

#include "experiments/model/config.h"
#include "experiments/model/kept_tokens.h"
#include "experiments/plan/cache_plan.h"
#include "kernels/cache/kv_cache.h"

namespace tare {

class SequenceCache {
 public:
  // Empty. Throws Error where the plan or the model's heads are none that a cache takes: keys are not dropped of layers
  // with a window.
  SequenceCache(const ModelConfig& config, const CachePlan& plan);

  // Of the sequence so far; 0 before the first pass. Some may have been dropped.
  int64_t tokens() const { return layers_.back().cache.tokens() + layers_.back().kept.dropped(); }
  float skip() const { return skip_; }
  // Of one layer. Throws Error for what it does not take, and nothing joins.
  KvCache& Layer(int layer) { return layers_.at(static_cast<size_t>(layer)).cache; }
  // After attention of the newest tokens over a layer: drops what the plan does not keep.
  void Update(int layer, const DecodeHeads& heads, const DecodeSequence& s);

  // Values that were read for it and for sequences of the same calls after it.
  void Count(const ValuePages& values) { values_.all += values.all, values_.skipped += values.skipped; }
  const ValuePages& values() const { return values_; }

  // This many first tokens are a prompt, after which keys may be dropped (keep=snapkv).
  void ExpectPrompt(int64_t tokens) { prompt_ = tokens; }
  // How many tokens may join in one pass such that every query sees the cache as it is when its own token comes: up to
  // the end of a page, where scales per channel are fixed, or to the next drop of keys; one where the last tokens stay
  // in f32, for those change with every token, or where pages are skipped, which are those that no query of a pass
  // needs.
  int64_t TokensAtOnce() const;

  // Keeps the first `tokens`. Throws Error for more than there are, and where some were dropped.
  void Truncate(int64_t tokens);
  size_t Bytes() const;

 private:
  struct OneLayer {
    KvCache cache;
    KeptTokens kept;
  };
  std::vector<OneLayer> layers_;
  float skip_;
  ValuePages values_;
  int64_t prompt_ = 0;
};

// Throws Error, with the bytes, if a cache of this many tokens would exceed the machine's memory.
void CheckCacheFits(const ModelConfig& config, const CachePlan& plan, int64_t tokens);

}  // namespace tare
