// SPDX-License-Identifier: Apache-2.0
// Simulates a plan: at each site that it names, values become code * scale in f32 (quant/format/round.h)
// before the model uses them. Scales are dynamic, absmax (or a clip: +p99.9, +mse) over what the granularity
// says of one sequence's unmasked values, or static (+static: tensor, head, channel), from a statistics
// file:
//
//   tensor             all heads (or all channels) of the layer that the rule selects; of each site on its own
//   head               one head
//   row, token         one row
//   channel            one channel, all tokens
//   group<N>           N channels of a row
//   block<N>           N keys of a row
//   block<N>.channel   N tokens of one channel
//
// Formats with blocks of their own (mxfp4, nvfp4) take them where the product that follows sums over them: keys of a
// row, tokens of one channel of v, else channels of a row; the last block may be short. probs are normalised again by
// the sum of their dequantized codes, row by row. A difference in u8, u6 or u4 has a zero point
// (quant/format/zero_point.h). +smooth (q, k, v) subtracts before quantizing, and adds after, the mean of each channel
// over the sequence's first tokens (kSmoothingTokens). The shapes for attn_logits are those of the Differential
// Transformer's experiment (arXiv 2410.05258, figure 8), which does not say its own.
#pragma once

#include "experiments/plan/resolved_plan.h"
#include "experiments/plan/shared_scales.h"
#include "quant/observe/site_visitor.h"

namespace tare {

class SimulatedQuantizer : public SiteVisitor {
 public:
  // The plan outlives it.
  explicit SimulatedQuantizer(const ResolvedPlan& plan) : plan_(plan) {}

  bool Wants(Site site, std::optional<int> layer) const override;
  bool Changes() const override { return true; }
  bool NeedsSurvey(Site site, std::optional<int> layer) const override;
  void BeginBatch(int64_t) override { maxima_.Clear(); }
  void Survey(const SiteBlock& block, int thread) override;
  void Visit(const SiteBlock& block, int thread) override;

 private:
  void Quantize(const SiteBlock& block, const Rule& rule);

  const ResolvedPlan& plan_;
  SharedMaxima maxima_;  // of what a survey has seen
};

}  // namespace tare
