// SPDX-License-Identifier: Apache-2.0
// A plan's +diff, +exp, +rescale and +sum: the softmax of attention as kernels compute it in tiles of 64 keys, some of
// its steps in 16 bits. R is a step's rounding, to f16 or bf16, to nearest even or toward zero, or none; x are logits
// in octaves, logit log2(e), as a plan leaves them; m is the running maximum, l the running sum.
//
//   m' = max(m, tile's max)    c = R_rescale(2^R_rescale(m - m'))       p = R_exp(2^R_diff(x - m'))
//   l' = l c + R_sum(sum p)    o' = o c + sum p v                       in the end o / l
//
// Here earlier tiles' p are multiplied by c, and all by 1 / l at the end: the same o up to f32's rounding. Each map has
// its own m and l. Tiles begin at keys that are multiples of 64 from the first key. Source: NVIDIA/Model-Optimizer,
// pull request 1635 (DIFF, EXP2, ACC; mixed_fp16: +diff.f16+exp.f16+rescale.f16), without flushing of subnormals.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "quant/observe/site_visitor.h"
#include "quant/plan/plan.h"

namespace tare {

// Turns a row of x, of the keys from `first` on, into probabilities.
void SoftmaxInTiles(const SoftmaxSteps& steps, int64_t first, std::span<float> row);

// One thread shows a block's logits and then its probabilities.
class SoftmaxOfPlan {
 public:
  // The plan must outlive it.
  explicit SoftmaxOfPlan(const Plan& plan);

  bool Wants(Site site) const { return any_ && site == Site::kAttnLogits; }
  void BeginBatch();
  // Keeps the logits of a block whose probabilities a rule wants otherwise, and writes those.
  void KeepLogits(const SiteBlock& block, int thread);
  void WriteProbs(const SiteBlock& block, int thread) const;

 private:
  // The rule of the block's probabilities, if it has such options.
  const SoftmaxSteps* StepsOf(const SiteBlock& block) const;

  const Plan& plan_;
  bool any_;
  std::vector<std::vector<float>> logits_;  // per thread: a block's rows, one after another, in octaves
};

}  // namespace tare
