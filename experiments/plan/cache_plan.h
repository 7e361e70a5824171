// SPDX-License-Identifier: Apache-2.0
// How a cache of keys and values is spelled, like a plan:
//
//   cache_k=int4/channel+hadamard,cache_v=int8/token,first=4,last=128
//
// formats f32 and bf16 (no granularity), int8, int6 and int4 with a scale per token and head, or per channel, head and
// page of 64 tokens; the first and the last so many tokens stay in f32; +hadamard rotates the channels of each head. What is
// not named is f32; what is named twice counts as it is named last.
#pragma once

#include <string>
#include <string_view>

#include "kernels/cache/kv_cache.h"

namespace tare {

// Throws Error, naming the rule, for what is not of this form.
CachePlan ParseCachePlan(std::string_view text);

// ParseCachePlan(Name(p)) is p.
std::string Name(const CachePlan& plan);

}  // namespace tare
