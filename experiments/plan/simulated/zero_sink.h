// SPDX-License-Identifier: Apache-2.0
// +sink of attn_logits: one more key, with logit 0 and value 0, in every row of a map. With x the logits as a plan
// leaves them:
//
//   p_i = exp(x_i) / (1 + sum_j exp(x_j)) = softmax(x)_i s,   s = 1 / (1 + exp(-log sum_j exp(x_j)))
//
// This is also softmax plus one (Miller, "Attention is off by one", 2023; Xiao et al., arXiv 2309.17453, "zero sink"):
// a row may sum to less than 1. Each map has its own sink. The sink is not rounded: rules for probs round softmax(x),
// and s multiplies the result, as a kernel does after its sums.
#pragma once

#include <optional>
#include <vector>

#include "quant/observe/site_visitor.h"
#include "quant/plan/plan.h"

namespace tare {

// Place it after the quantizer. One thread shows a block's logits and then its probabilities.
class ZeroSink : public SiteVisitor {
 public:
  // The plan must outlive it.
  explicit ZeroSink(const Plan& plan);

  bool Wants(Site site, std::optional<int> layer) const override;
  bool Changes() const override { return true; }
  void BeginBatch(int64_t slots) override;
  void Visit(const SiteBlock& block, int thread) override;

 private:
  bool HoldsFor(const SiteBlock& block) const;

  const Plan& plan_;
  bool any_;
  std::vector<std::vector<float>> shares_;  // per thread: s of each row
};

}  // namespace tare
