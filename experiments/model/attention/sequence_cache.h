// SPDX-License-Identifier: Apache-2.0
// What one sequence keeps for decoding, and attention over it: a cache per layer that makes keys and values, read by
// the layers that share them too, and the state of each scan. A copy is a fork (kv_cache.h).
//
// Which keys a layer keeps (keep= of experiments/plan/cache_plan.h) is decided for each group of heads. A query sees at
// most the budget: when the cache holds that many keys, kDropped of them are dropped.
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

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "experiments/model/attention/float_attention.h"
#include "experiments/model/config/config.h"
#include "experiments/plan/cache_plan.h"
#include "experiments/plan/resolved_plan.h"
#include "kernels/cache/kv_cache.h"
#include "kernels/decode/decode_attention.h"
#include "kernels/decode/decode_heads.h"
#include "kernels/scan/selective_scan.h"
#include "quant/base/aligned.h"

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

// Which `kept` keys stay, ascending: the first `first`, newest `newest`, and heaviest of the others, ties older.
std::vector<int64_t> HeaviestKeys(std::span<const float> mass, int64_t kept, int64_t first, int64_t newest);

// What a layer's cache holds: of latents rotated channels as keys, the rest as values; without a layer, each head's.
CacheShape CacheShapeOf(const ModelConfig& config, std::optional<int> layer = {});

class SequenceCache {
 public:
  static constexpr int64_t kMostAtOnce = 512;  // weights are read once for them; workspaces grow with more

  // Throws Error if a cache does not support the plan or the model's heads: layers with a window cannot drop keys.
  SequenceCache(const ModelConfig& config, const CachePlan& plan);

  // Tokens of the sequence so far, dropped ones included; 0 before the first pass.
  int64_t tokens() const {
    if (layers_.empty()) return scans_.rbegin()->second.front().tokens;
    return layers_.back().cache.tokens() + layers_.back().kept.dropped();
  }
  float skip() const { return skip_; }
  // The cache that a layer reads. It throws Error for unsupported values, which then do not join.
  KvCache& Layer(int layer) { return layers_.at(static_cast<size_t>(slots_.at(static_cast<size_t>(layer)))).cache; }
  // Whether the layer's own keys and values are in it.
  bool Owns(int layer) const { return owns_.at(static_cast<size_t>(layer)); }
  // The state of a layer's scan; of a pair's, mixer is 0 or 1.
  ScanState& Scan(int layer, size_t mixer) { return scans_.at(layer).at(mixer); }
  // Call it after attention of the newest tokens in a layer: drops keys as the plan says.
  void Update(int layer, const DecodeHeads& heads, const DecodeSequence& s);

  // Counts pages of values read for it, alone or shared with other sequences of the same calls.
  void Count(const ValuePages& values) { values_.all += values.all, values_.skipped += values.skipped; }
  const ValuePages& values() const { return values_; }

  // The first `tokens` are a prompt, `more` follow: keep=snapkv drops keys at its end; longrope turns by both lengths.
  void ExpectPrompt(int64_t tokens, int64_t more = 0) { prompt_ = tokens, expected_ = tokens + more; }
  int64_t expected() const { return expected_; }
  // Whether a layer's newest tokens are all of the prompt, before its last.
  bool InPrompt(int layer) { return Layer(layer).tokens() < prompt_; }
  // Whether a sequence of so many tokens would have other keys than those that are here.
  bool Outgrows(int64_t tokens) const {
    return this->tokens() > 0 && rotary_.IsLong(tokens) && !rotary_.IsLong(std::max(expected_, this->tokens()));
  }
  // Tokens that may join in one pass while each query sees the cache as of its own token: up to the end of a page with
  // fixed scales per channel, or to the next drop; one if the last tokens stay in f32, which change with every token,
  // or if pages are skipped, because a pass skips only pages that none of its queries needs; else `most`.
  int64_t TokensAtOnce(int64_t most = kMostAtOnce) const;

  size_t Bytes() const;

 private:
  struct OneLayer {
    KvCache cache;
    KeptTokens kept;
  };
  std::vector<OneLayer> layers_;                 // that make keys and values
  std::vector<int> slots_;                       // by layer, in layers_; -1: no attention
  std::vector<bool> owns_;                       // by layer
  std::map<int, std::vector<ScanState>> scans_;  // by layer, one or a pair's two
  float skip_;
  std::shared_ptr<HeldKeys> held_;
  ValuePages values_;
  RotaryConfig rotary_;
  int64_t prompt_ = 0, expected_ = 0;
};

// Throws Error, with the bytes, if a cache of this many tokens would exceed the machine's memory.
void CheckCacheFits(const ModelConfig& config, const CachePlan& plan, int64_t tokens);

// ---- Attention over the caches (cached_attention.cc)
//
// New tokens' attention over their sequences' caches: by the decode kernel (kernels/decode/), or, for executed prompts,
// on the integer kernels. Keys and values join first, so a query sees its own; shared keys are an earlier layer's.
//
// A part of a prompt is many queries at once on the integer kernels (kernels/attention/integer/), over the cache as
// f32, rounded once more by the plan. Blocks of values count from the first token: parts of whole blocks, the last
// aside, give the bits of one call for the whole prompt. A part's last block has the scale of its tokens so far.

// Grows with the longest prompt: of one layer, its keys and values in f32, and their codes.
struct PromptMemory {
  AlignedBuffer<float> k, v;  // [S][k heads][d] [S][v heads][width]
  ExecutedMemory executed;
  AlignedBuffer<std::byte> workspace;
};

// part: queries of the newest tokens; keys, values, heads are the cache's. Throws Error if queries are not finite.
void PromptAttention(const ExecutedPlan& plan, const AttentionProblem& part, const KvCache& cache,
                     PromptMemory& memory);

// Shared by the layers and passes of one model.
struct DecodeScratch {
  std::vector<DecodeHeads> heads;  // the model's table, for each window and skip in use
  AlignedBuffer<std::byte> workspace;
  PromptMemory prompt;
};

// The rows of one sequence in the batch.
AttentionProblem SequenceRows(const AttentionSequence& sequence, const AttentionProblem& batch);

// caches: one per sequence. of_prompts: executed for tokens of prompts (SequenceCache::InPrompt); null: the decode
// kernel takes all. expand: what attention reads of a cache that holds latents, as problem has; null: the cache itself.
// Throws Error for branches, which share no cache, and for values that are not finite.
void CachedAttention(const AttentionProblem& problem, std::span<const AttentionSequence> sequences,
                     std::span<SequenceCache* const> caches, int layer, const ExecutedPlan* of_prompts,
                     const std::function<KvCache(const KvCache&)>& expand, DecodeScratch& scratch);

}  // namespace tare
