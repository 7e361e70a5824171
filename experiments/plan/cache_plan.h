// SPDX-License-Identifier: Apache-2.0
// How a sequence decodes over its keys and values: a plan's rules of cache_k and cache_v (quant/plan/plan.h), and a
// policy beside them (cache_policy.h), in one text:
//
//   cache_k=int4/channel+hadamard,cache_v=int8/token,cache_k[l0,l31]=f32,first=4,last=128,keep=h2o/1024,skip=0.001
//
//   cache_k, cache_v   f32 and bf16, int8, int6 and int4 with a scale per token and head, or per channel, head and page
//                      of 64 tokens; +hadamard rotates the channels of each head; +prerotary, of keys, keeps them as
//                      they are before rotary position embedding
//
// What is not named is f32, all keys, every page.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "experiments/plan/cache_policy.h"
#include "kernels/cache/kv_cache.h"
#include "quant/plan/plan.h"

namespace tare {

struct CachePlan {
  // Of each site first the rule of all its layers, then those after it with layers.
  Plan rules = Plan::Parse("cache_k=f32,cache_v=f32");
  CachePolicy policy;

  CacheRules OfLayer(int layer) const;
};

// Throws Error, naming the rule, for what is not of this form, and for kept keys beside scales per channel or keys
// before rotary, which cannot move.
CachePlan ParseCachePlan(std::string_view text);

// `base`, where there is one, and after its rules the plan's of caches; nothing where neither is there. Throws Error as
// ParseCachePlan.
std::optional<CachePlan> CachePlanOf(const Plan& plan, const std::optional<CachePlan>& base = std::nullopt);

// ParseCachePlan(Name(p)) is p.
std::string Name(const CachePlan& plan);

}  // namespace tare
