// SPDX-License-Identifier: Apache-2.0
// Simulates a plan: at each quantized site, values become code * scale in f32 (quant/format/round.h) before the model
// uses them. Scales are dynamic, absmax (or a clip: +p99.9, +mse) over the unmasked values of one sequence that share
// one by the granularity, or static (+static: tensor, head, channel), from a statistics file:
//
//   tensor             all heads (or all channels) of the layer that the rule selects, separately for each site
//   head               one head
//   row, token         one row
//   heads              one row of all heads that the rule selects
//   channel            one channel, all tokens
//   group<N>           N channels of a row
//   block<N>           N keys of a row
//   block<N>.channel   N tokens of one channel
//
// Formats with their own blocks (mxfp4, nvfp4) place them along the dimension that the next product sums over: keys of
// a row, tokens of one channel of v, else channels of a row; the last block may be short.
//
// probs are divided by the sum of their row's dequantized codes, as integer kernels divide after P x V
// (kernels/attention/quantized_reference.h), where a learned sink's share, not rounded, belongs to the sum; with
// +unnormalized the row keeps the sum that rounding left. A difference in u8, u6 or u4 has a zero point
// (quant/format/zero_point.h), and so have keys and values with +zero (round.h). +outliers (k, v) leaves some values
// of a group unchanged (shared_scales.h); +sketch (k) adds what a row's signs tell of its error
// (quant/format/sign_sketch.h), where +hadamard has rotated it. +smooth (q, k, v) subtracts the mean of each channel
// over the sequence's first tokens (kSmoothingTokens) before quantizing and adds it back after. The scales for
// attn_logits are those of the Differential Transformer's experiment (arXiv 2410.05258, figure 8), which does not say
// which it used.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "experiments/plan/resolved_plan.h"
#include "experiments/plan/shared_scales.h"
#include "experiments/plan/simulated/row_change.h"
#include "kernels/cache/key_rotary.h"
#include "quant/format/round.h"
#include "quant/observe/site_visitor.h"

namespace tare {

class SimulatedQuantizer : public SiteVisitor {
 public:
  // The plan must outlive it.
  explicit SimulatedQuantizer(const ResolvedPlan& plan) : plan_(plan) {}

  // By layer, for +prerotary; before any block is shown.
  void SetKeyRotaries(std::vector<std::shared_ptr<const KeyRotary>> of_layers) { rotaries_ = std::move(of_layers); }

  // Shown each group of a format with an offset before it is rounded: the values that determine its scale, all but
  // outliers, and the scale. Called on several threads at once; before any block is shown.
  using SeeGroup = std::function<void(const SiteKey& key, std::span<const float> values, const GroupScale& scale)>;
  void OnGroup(SeeGroup see) { see_group_ = std::move(see); }

  bool Wants(Site site, std::optional<int> layer) const override;
  bool Changes() const override { return true; }
  bool NeedsSurvey(Site site, std::optional<int> layer) const override;
  void BeginBatch(int64_t) override { maxima_.Clear(); }
  void Survey(const SiteBlock& block, int thread) override;
  void Visit(const SiteBlock& block, int thread) override;

 private:
  void Quantize(const SiteBlock& block, const Rule& rule);
  RowChange ChangeOf(const Rule& rule, const SiteBlock& block) const;

  const ResolvedPlan& plan_;
  std::vector<std::shared_ptr<const KeyRotary>> rotaries_;
  SeeGroup see_group_;
  SharedMaxima maxima_;  // gathered by the survey
};

}  // namespace tare
