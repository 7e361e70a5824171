// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/families/experts.h"

#include "quant/base/error.h"

namespace tare {

void ReadExperts(const ConfigKeys& keys, ModelConfig& c, ExpertCounts otherwise) {
  constexpr int kMost = 1 << 14;  // so that all rows of a layer are counted by 64 bits
  const char* const key = keys.Has("num_experts") ? "num_experts" : "num_local_experts";
  c.experts = keys.Integer(key, 1, otherwise.experts);
  if (c.experts > kMost) Fail("{}: {}: got {}, expected 1 to {}", keys.where(), key, c.experts, kMost);
  if (const int also = keys.Integer("num_local_experts", 1, c.experts); also != c.experts)
    Fail("{}: num_local_experts: got {}, expected num_experts {}", keys.where(), also, c.experts);
  c.chosen_experts = keys.Integer("num_experts_per_tok", 1, otherwise.chosen);
  if (c.chosen_experts > c.experts)
    Fail("{}: num_experts_per_tok: got {}, expected at most {} {}", keys.where(), c.chosen_experts, key, c.experts);
  if (const int also = keys.Integer("experts_per_token", 1, c.chosen_experts); also != c.chosen_experts)
    Fail("{}: experts_per_token: got {}, expected num_experts_per_tok {}", keys.where(), also, c.chosen_experts);
}

}  // namespace tare
