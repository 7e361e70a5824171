// SPDX-License-Identifier: Apache-2.0
// +sink of attn_logits: one more key, whose logit is 0 and whose value is 0, in every row of a map. With x the logits
// as a plan leaves them:
//
//   p_i = exp(x_i) / (1 + sum_j exp(x_j)) = softmax(x)_i s,   s = 1 / (1 + exp(-log sum_j exp(x_j)))
//
// which is softmax plus one too (Miller, "Attention is off by one", 2023; Xiao et al., arXiv 2309.17453, "zero sink"):
// a row may weigh less than 1. Each map has a sink of its own. The sink takes no part in rounding: rules of probs round
// softmax(x), and s multiplies what they leave, as a kernel does after its sums.
#pragma once

#include <optional>
#include <vector>

#include "quant/observe/site_visitor.h"
#include "quant/plan/plan.h"

namespace tare {

// Place it after the quantizer. Of each block one thread shows the logits and then the probabilities.
class ZeroSink : public SiteVisitor {
 public:
  // The plan outlives it.
  explicit ZeroSink(const Plan& plan);

  bool Wants(Site site, std::optional<int> layer) const override;
  bool Changes() const override { return true; }
  void BeginBatch(int64_t slots) override;
  void Visit(const SiteBlock& block, int thread) override;

 private:
  bool HoldsFor(const SiteBlock& block) const;

  const Plan& plan_;
  bool any_;
  std::vector<std::vector<float>> shares_;  // a thread's rows: what the keys keep of each, s
};

}  // namespace tare
