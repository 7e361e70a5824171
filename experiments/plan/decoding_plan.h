// SPDX-License-Identifier: Apache-2.0
// How a sequence decodes over its keys and values, spelled like a plan:
//
//   cache_k=int4/channel+hadamard,cache_v=int8/token,first=4,last=128,keep=h2o/1024,skip=0.001
//
//   cache_k=, cache_v=   f32 and bf16 (no granularity), int8, int6 and int4 with a scale per token and head, or per
//                        channel, head and page of 64 tokens; +hadamard rotates the channels of each head; +prerotary, of
//                        keys, keeps them as they were before rotary position embedding
//   first=N, last=N      so many tokens stay in f32
//   keep=POLICY/BUDGET   which keys a layer keeps, of so many at most, or as many as a cache of all layers of so many
//                        bytes (64kB, 3MB) holds: window, h2o, difference, snapkv, snapkv-difference
//                        (experiments/model/kept_tokens.h)
//   skip=T               pages whose weight in every map of a group is at most T of what came before are not read
//                        (kernels/decode/decode_plan.h)
//
// What is not named is f32, all keys, every page; what is named twice counts as it is named last.
#pragma once

#include <string>
#include <string_view>

#include "kernels/cache/kv_cache.h"

namespace tare {

enum class KeepPolicy { kAll, kWindow, kH2o, kDifference, kSnapKv, kSnapKvDifference };

// Of each layer and group of heads; one of the two budgets, unless all are kept.
struct KeepRule {
  KeepPolicy policy = KeepPolicy::kAll;
  int64_t keys = 0;
  int64_t bytes = 0;  // of all layers

  bool Drops() const { return policy != KeepPolicy::kAll; }
  // When a prompt ends and never again.
  bool DropsOnce() const { return policy == KeepPolicy::kSnapKv || policy == KeepPolicy::kSnapKvDifference; }
  bool WeighsDifference() const { return policy == KeepPolicy::kDifference || policy == KeepPolicy::kSnapKvDifference; }
};

struct DecodingPlan {
  CachePlan cache;
  KeepRule keep;
  float skip = 0;
};

// Throws Error, naming the rule, for what is not of this form, and for kept keys beside scales per channel or keys before
// rotary, which cannot move.
DecodingPlan ParseDecodingPlan(std::string_view text);

// ParseDecodingPlan(Name(p)) is p.
std::string Name(const DecodingPlan& plan);

}  // namespace tare
