// SPDX-License-Identifier: Apache-2.0
// A plan carried out by simulation: at each site that it names, values become code * scale in f32
// (quant/format/round.h) before the model goes on. Scales are dynamic, absmax (or a clip: +p99.9, +mse) over what the
// granularity says of one sequence's unmasked values, or static (+static: tensor, head, channel), from a statistics
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
// probs are normalised again by the sum of their dequantized codes, a row. A difference in u8, u6 or u4 has a zero
// point (quant/format/zero_point.h). +smooth (q, k, v) subtracts before quantizing, and adds after, the mean of each
// channel over the sequence's first tokens (kSmoothingTokens). The shapes for attn_logits are those of the Differential
// Transformer's experiment (arXiv 2410.05258, figure 8), which does not say its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "experiments/model/config.h"
#include "experiments/sites/plan_clips.h"
#include "quant/observe/site_visitor.h"
#include "quant/plan/plan.h"

namespace tare {

class SimulatedQuantizer : public SiteVisitor {
 public:
  // statics: for rules with +static. Throws Error naming the first rule that this build cannot simulate.
  SimulatedQuantizer(Plan plan, const ModelConfig& config, StaticSource statics = {});

  // Whether some scale spans rows: then a token's result depends on later tokens of its sequence, and sequences cannot
  // share the computation of a common beginning.
  bool SpansRows() const;
  const Plan& plan() const { return plan_; }
  const StaticClips& static_clips() const { return static_clips_; }

  bool Wants(Site site, int layer) const override;
  bool Changes() const override { return true; }
  bool NeedsSurvey(Site site, int layer) const override;
  void BeginBatch(int64_t slots) override;
  void Survey(const SiteBlock& block, int thread) override;
  void Visit(const SiteBlock& block, int thread) override;

 private:
  const Rule* RuleFor(const SiteBlock& block) const;
  // Bits of the largest magnitude of everything that shares a scale; they order as the magnitudes do, so that the
  // maximum over threads is exact.
  std::atomic<uint32_t>& Absmax(const SiteBlock& block, const Rule& rule);

  Plan plan_;
  StaticClips static_clips_;
  int layers_, heads_;
  // [slot][1 + layer][site][heads, then rules: `tensor` is what a rule selects]
  std::vector<std::atomic<uint32_t>> absmax_;
};

}  // namespace tare
