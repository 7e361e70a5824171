// SPDX-License-Identifier: Apache-2.0
// How a sequence decodes over its keys and values: a plan's rules of cache_k and cache_v (quant/plan/plan.h), and a
// policy beside them, in one text:
//
//   cache_k=int4/channel+hadamard,cache_v=int8/token,cache_k[l0,l31]=f32,first=4,last=128,keep=h2o/1024,skip=0.001
//
//   cache_k, cache_v   f32 and bf16; int8 to int2, FP8 and lists of values with one scale per token and head, per
//                      channel, head and page of 64 tokens, or for all that a layer's statistics saw (tensor+static);
//                      of keys, block<N>.channel has one per channel and N tokens of a page, of values, group<N> one
//                      per token and N channels, N 32 or 64, MX and NVFP4 one per block; +hadamard rotates the channels
//                      of each head, all or in runs; +prerotary stores keys as they are before rotary positions
//
// The default is f32, all keys, every page.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cache/kv_cache.h"
#include "quant/plan/plan.h"

namespace tare {

// What a sequence's caches do besides rounding, written next to their rules:
//
//   first=N, last=N      this many tokens stay in f32
//   keep=POLICY/BUDGET   which keys a layer keeps: at most this many, or as many as fit a cache of all layers with this
//                        many bytes (64kB, 3MB): all, window, h2o, difference, snapkv, snapkv-difference
//                        (experiments/model/attention/sequence_cache.h)
//   skip=T               pages are not read if their weight, in every map of a group, is at most T of that of earlier
//                        pages (kernels/decode/decode_heads.h)
//
// By default no key is dropped and no page skipped. The last of two rules with the same name counts.
enum class KeepPolicy { kAll, kWindow, kH2o, kDifference, kSnapKv, kSnapKvDifference };

// For each layer and group of heads. Exactly one of the two budgets is set, unless all keys are kept.
struct KeepRule {
  KeepPolicy policy = KeepPolicy::kAll;
  int64_t keys = 0;
  int64_t bytes = 0;  // of all layers

  bool Drops() const { return policy != KeepPolicy::kAll; }
  // Drops keys when a prompt ends and never again.
  bool DropsOnce() const { return policy == KeepPolicy::kSnapKv || policy == KeepPolicy::kSnapKvDifference; }
  bool WeighsDifference() const { return policy == KeepPolicy::kDifference || policy == KeepPolicy::kSnapKvDifference; }
};

struct CachePolicy {
  int64_t first = 0, last = 0;
  KeepRule keep;
  float skip = 0;
};

// "window", "h2o", ...
std::vector<std::string_view> KeepPolicies();

// Applies one rule, "first=4"; false for a rule with another name. Throws Error, naming the rule, if it is malformed.
bool ReadPolicy(std::string_view rule, CachePolicy& policy);

// What differs from the default, ",first=4,keep=h2o/256"; "" if nothing does.
std::string TextOf(const CachePolicy& policy);

// What a run's queries found in caches that round: pairs of query and held key, and those with the key in codes.
struct HeldKeys {
  double all = 0, rounded = 0;
};

struct CachePlan {
  // For each site first a rule for all layers, then later ones for some layers.
  Plan rules = Plan().Append(RuleFor(Site::kCacheK)).Append(RuleFor(Site::kCacheV));
  CachePolicy policy;
  std::map<SiteKey, float> clips = {};  // of each layer's rules with +static
  std::shared_ptr<HeldKeys> held;       // where the caches of a run count; null: nobody asks

  // Throws Error for a rule with +static whose clip is not known.
  CacheRules OfLayer(int layer) const;
};

// Throws Error, naming the rule, for other text, and policies that drop channel-scaled or prerotary keys (immovable).
CachePlan ParseCachePlan(std::string_view text);

// The rules of `base`, then the plan's for caches; empty without either. Throws Error as ParseCachePlan.
std::optional<CachePlan> CachePlanOf(const Plan& plan, const std::optional<CachePlan>& base = std::nullopt);

// ParseCachePlan(Name(p)) is p.
std::string Name(const CachePlan& plan);

}  // namespace tare
