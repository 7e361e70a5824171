// SPDX-License-Identifier: Apache-2.0
// What a sequence's caches do besides rounding, written next to their rules (cache_plan.h):
//
//   first=N, last=N      this many tokens stay in f32
//   keep=POLICY/BUDGET   which keys a layer keeps, at most this many, or as many as a cache of all layers of this many
//                        bytes (64kB, 3MB) holds: all, window, h2o, difference, snapkv, snapkv-difference
//                        (experiments/model/kept_tokens.h)
//   skip=T               pages whose weight in every map of a group is at most T of what came before are not read
//                        (kernels/decode/decode_heads.h)
//
// What is not named drops no key and skips no page. What is named twice counts as it is named last.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

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

struct CachePolicy {
  int64_t first = 0, last = 0;
  KeepRule keep;
  float skip = 0;
};

// Takes up one rule, "first=4"; false for a rule of another name. Throws Error, naming the rule, for what is not of
// this form.
bool ReadPolicy(std::string_view rule, CachePolicy& policy);

// ",first=4,keep=h2o/256", what differs from the default; "" where nothing does.
std::string TextOf(const CachePolicy& policy);

}  // namespace tare
