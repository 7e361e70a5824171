// SPDX-License-Identifier: Apache-2.0
// Simulates a plan: at each quantized site, values become code * scale in f32 (quant/format/round.h) before the model
// uses them. Scales are dynamic, absmax (or a clip: +p99.9, +mse) over the unmasked values of one sequence that share
// one by the granularity, or static (+static: tensor, head, channel), from a statistics file:
//
//   tensor             all heads (or all channels) of the layer that the rule selects, separately for each site; for
//                      probs, a largest value of 1
//   head               one head
//   row, token         one row
//   heads              one row of all heads that the rule selects
//   tokens<N>          N tokens of a head; .by8 and .by4x2: every eighth of them, or every fourth pair
//   channel            one channel, all tokens
//   group<N>           N channels of a row
//   block<N>           N keys of a row
//   block<N>.channel   N tokens of one channel
//
// Formats with blocks (mxfp4, nvfp4) place them along what the next product sums: a row's keys, a channel's tokens of
// v, else a row's channels; the last may be short. nvfp4/row has an f32 per row (RoundInBlocksOfRow).
//
// probs are divided by the sum of their row's dequantized codes, as integer kernels divide after P x V
// (tests/support/quantized_reference.cc), where a learned sink's share, not rounded, belongs to the sum; with
// +unnormalized the row keeps the sum that rounding left. A difference in u8, u6 or u4 has a zero point
// (quant/format/round.h), and so has what +zero is for. +outliers (k, v) leaves some values of a group unchanged
// (shared_scales.h); +sketch (k) adds what a row's signs tell of its error (quant/format/hadamard.h), where +hadamard
// has rotated it. +smooth (q, k, v) subtracts the mean of each channel over the sequence's first tokens
// (kSmoothingTokens), +smoothall over all of them, before quantizing and adds it back after; +smooth<N> (q) is in
// query_means.h. +diff, +exp, +rescale and +sum (probs) round steps of the softmax first (softmax_steps.h). +top<X>
// makes the largest magnitude X instead of the format's largest value. The scales for attn_logits are those of the
// Differential Transformer's experiment (arXiv 2410.05258, figure 8), which does not say which it used.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "experiments/plan/resolved_plan.h"
#include "experiments/plan/shared_scales.h"
#include "experiments/plan/simulated/softmax_steps.h"
#include "kernels/cache/key_rotary.h"
#include "quant/format/hadamard.h"
#include "quant/format/round.h"
#include "quant/observe/site_visitor.h"
#include "quant/plan/plan.h"

namespace tare {

// What a rule's options change of a block's rows before rounding, undone after it (row_change.cc).
class RowChange {
 public:
  // rotary: of the block's keys; null without +prerotary. Throws Error where +hadamard has no matrix of the width.
  RowChange(const RuleOptions& options, const SiteBlock& block, const KeyRotary* rotary = nullptr);

  bool Any() const { return rotation_ != nullptr || rotary_ != nullptr || max_shift_ || keep_ > 0 || !mean_.empty(); }
  // Row r of the block, or a changed copy of it, all finite.
  void Make(int64_t r, std::span<float> row);
  // Undoes the change of a row that Make made.
  void Undo(int64_t r, std::span<float> row) const;

 private:
  struct Made {
    float shift = 0;
    std::vector<float> kept;
  };
  size_t Kept(int64_t r, size_t columns) const;
  const float* MeanAt(int64_t r) const {
    return mean_.data() + (mean_of_ == 0 ? 0 : r / mean_of_ * block_.first_columns);
  }

  const SiteBlock& block_;
  bool max_shift_;
  int keep_;
  const Hadamard* rotation_;  // null: none
  const KeyRotary* rotary_;   // null: none
  int mean_of_;               // rows that have one mean; 0: all
  std::vector<float> mean_;   // [means][columns]; empty without +smooth
  std::vector<Made> made_;    // per row
};

// +sink of attn_logits: one more key, with logit 0 and value 0, in every row of a map. With x the logits as a plan
// leaves them:
//
//   p_i = exp(x_i) / (1 + sum_j exp(x_j)) = softmax(x)_i s,   s = 1 / (1 + exp(-log sum_j exp(x_j)))
//
// This is softmax plus one (Miller, "Attention is off by one", 2023; Xiao et al., arXiv 2309.17453, "zero sink") in
// each map: a row may sum to less than 1. Rules for probs round softmax(x); s then multiplies, as in kernels.
//
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

class SimulatedQuantizer : public SiteVisitor {
 public:
  // The plan must outlive it.
  explicit SimulatedQuantizer(const ResolvedPlan& plan) : plan_(plan), softmax_(plan.plan()) {}

  // By layer, for +prerotary; before any block is shown.
  void SetKeyRotaries(std::vector<std::shared_ptr<const KeyRotary>> of_layers) { rotaries_ = std::move(of_layers); }

  // Shown each group of a format with an offset before rounding, without outliers, and its scale; on several threads.
  using SeeGroup = std::function<void(const SiteKey& key, std::span<const float> values, const GroupScale& scale)>;
  void OnGroup(SeeGroup see) { see_group_ = std::move(see); }

  bool Wants(Site site, std::optional<int> layer) const override;
  bool Changes() const override { return true; }
  bool NeedsSurvey(Site site, std::optional<int> layer) const override;
  void BeginBatch(int64_t) override {
    maxima_.Clear();
    softmax_.BeginBatch();
  }
  void Survey(const SiteBlock& block, int thread) override;
  void Visit(const SiteBlock& block, int thread) override;

 private:
  void Change(const SiteBlock& block, const Rule& rule);
  void Quantize(const SiteBlock& block, const Rule& rule);
  RowChange ChangeOf(const Rule& rule, const SiteBlock& block) const;

  const ResolvedPlan& plan_;
  SoftmaxOfPlan softmax_;
  std::vector<std::shared_ptr<const KeyRotary>> rotaries_;
  SeeGroup see_group_;
  SharedMaxima maxima_;  // gathered by the survey
};

}  // namespace tare
