// SPDX-License-Identifier: Apache-2.0
// The keys that one layer of one sequence keeps (keep= of experiments/plan/cache_plan.h), separately for each group of
// heads. A query sees at most the budget: when the cache holds that many keys, kDropped of them are dropped.
//
//   window      the first 4 and the newest (StreamingLLM, arXiv 2309.17453, but at their own positions)
//   h2o         the newest half, and of the others those with the largest sum of probabilities so far, over both maps
//               (H2O, arXiv 2306.14048)
//   difference  likewise by the sum of |P1 - lambda P2|, which reaches the output. With one map, h2o
//   snapkv      once, when the prompt ends: the newest 32, and those with the largest sum of probabilities over the
//               prompt's last 32 queries, each the largest of 7 neighbours (SnapKV, arXiv 2404.14469). Generated
//               tokens stay
//   snapkv-difference  likewise by |P1 - lambda P2|
//
// Tokens that the cache keeps in f32, first or last, always stay.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "experiments/plan/cache_plan.h"
#include "kernels/decode/decode_attention.h"

namespace tare {

class KeptTokens {
 public:
  static constexpr int64_t kDropped = 8;  // at once: dropping one by one would move the cache with every token

  // rule: with a budget in keys. Throws Error if the first and last tokens leave policies nothing to choose.
  KeptTokens(const KeepRule& rule, const CacheRules& cache);

  // How many more tokens may join the cache before keys are dropped; a large number if there is no limit.
  int64_t Room(const KvCache& cache) const;
  // Call it after attention of the newest tokens over the cache.
  void Update(const DecodeHeads& table, const DecodeSequence& s, KvCache& cache);
  // Call it after the prompt's last tokens.
  void EndPrompt(const DecodeHeads& table, KvCache& cache);
  int64_t dropped() const { return dropped_; }

 private:
  void Remember(const DecodeHeads& table, const DecodeSequence& s);
  void Drop(const DecodeHeads& table, KvCache& cache, int64_t kept);

  KeepRule rule_;
  std::vector<std::vector<float>> mass_;  // [group][token of the cache]
  std::vector<float> queries_;            // that vote: of the newest tokens, [at most 32][q heads][d]
  std::vector<float> lambdas_;            // of the same tokens, [at most 32][heads]
  int64_t dropped_ = 0;
};

// Which `kept` of the keys with these masses stay, ascending: the first `first`, the newest `newest`, and the heaviest
// of the others; of equal ones the older.
std::vector<int64_t> HeaviestKeys(std::span<const float> mass, int64_t kept, int64_t first, int64_t newest);

}  // namespace tare
