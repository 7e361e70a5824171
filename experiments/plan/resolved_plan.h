// SPDX-License-Identifier: Apache-2.0
// A plan resolved for a model: each place's rule and, for +static, its clip. The constructor refuses what cannot run
// (refusals.h: what one rule combines), so the code that runs the plan needs no checks:
//
//   plan rule 'difference=u8/row': got a scale per row, expected one per block<N>; try simulating it
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "experiments/plan/model_sites.h"
#include "experiments/plan/refusals.h"
#include "kernels/attention/integer/executed_attention.h"
#include "quant/base/aligned.h"
#include "quant/format/hadamard.h"
#include "quant/plan/plan.h"

namespace tare {

class ResolvedPlan;

// ---- Executed attention (executed_plan.cc)
//
// A plan's rules for attention, in the form that the integer kernels take. They support scales per token or tokens<N>
// for q and k, per block and channel, channel or head for v, per block for difference, per block or row for probs, also
// with +top and +unnormalized, and per row for attn_logits, with one rule per site for all heads and maps of the layer.
//
// ExecutedSequence runs one sequence, with means of Q, K and V that +smooth subtracts, shared magnitudes, and rows that
// +hadamard rotates. Rotating both Q and K keeps their products; with V, outputs are rotated back.
inline constexpr std::array kAttentionSites{Site::kQ,          Site::kK,     Site::kV,
                                            Site::kAttnLogits, Site::kProbs, Site::kDifference};

// Whether integer kernels, or those of caches, support the site.
bool HasKernel(Site site);

struct ExecutedPlan {
  AttentionPlan attention;
  std::optional<MeanOver> smooth_q = {}, smooth_k = {}, smooth_v = {};  // the plan has +smooth or +smoothall
  Granularity scale_q = {Granularity::Kind::kToken}, scale_k = {Granularity::Kind::kToken};
  std::optional<RotatedRuns> rotated_qk = {};  // +hadamard, of q and k alike
  std::optional<RotatedRuns> rotated_v = {};
};

// For one layer; empty for f32 attention. Throws Error, naming a rule that kernels cannot execute, and what they can.
std::optional<ExecutedPlan> ExecutedPlanOf(const ResolvedPlan& plan, const ModelSites& model, int layer);

// One layer with `heads` heads at every site. Throws Error, starting with `where`, for a plan without attention.
ExecutedPlan ExecutedPlanOfText(const std::string& where, const std::string& plan, int heads);

// Grows with the largest sequence, and is kept.
struct ExecutedMemory {
  std::vector<float> q_mean, k_mean, v_mean, q_absmax, k_absmax;
  AlignedBuffer<float> q, k, v;  // rotated rows
};

class ExecutedSequence {
 public:
  // The memory must outlive it. Uses all threads. before: queries of earlier calls, from whose first tokens<N> counts.
  // Throws Error where no rotation of the heads' width is known.
  ExecutedSequence(const ExecutedPlan& plan, const AttentionProblem& sequence, ExecutedMemory& memory,
                   int64_t before = 0);

  size_t WorkspaceBytes() const;
  void Run(std::span<std::byte> workspace) const;

 private:
  AttentionPlan plan_;
  AttentionProblem problem_;
  const Hadamard* of_outputs_;  // of each slice of V; null: not rotated
};

// ---- The plan

// kSimulated: every site quantized and dequantized, in f32. kExecuted: attention and linear layers on the integer
// kernels, but for inputs that these do not take. kStored: weights as codes in a file; rules for other sites are kept
// for later runs.
enum class Carrying { kSimulated, kExecuted, kStored };

// Whether some scale spans rows, so that a token's result depends on later tokens of its sequence.
bool SpansRows(const Plan& plan);

class ResolvedPlan {
 public:
  // statics: for +static; without it, inputs of another tool's weights take the file's scales, if any. Throws Error,
  // with got, expected and a suggestion, for a rule that cannot run on this model.
  ResolvedPlan(Plan plan, const ModelSites& model, Carrying carrying, const StaticSource& statics = {});

  const Plan& plan() const { return plan_; }
  Carrying carrying() const { return carrying_; }

  // Null if the values stay f32.
  const Rule* RuleAt(const SiteKey& key) const;
  // Likewise, of values that are not rounded in f32: of an executed plan all but inputs of linear layers that integer
  // kernels do not take there, for their format, options or weights. They are rounded in f32, and multiplied by values.
  const Rule* CodedAt(const SiteKey& key) const;
  // And of values that are: all of a simulated plan, the others of an executed one; and whether a site may have some.
  const Rule* SimulatedAt(const SiteKey& key) const;
  bool Simulates(Site site) const;
  // For places of a rule with +static: the magnitudes that become the largest code, one in all or one per channel.
  const std::vector<float>& ClipAt(const SiteKey& key) const { return clips_.at(key); }
  const std::map<SiteKey, std::vector<float>>& clips() const { return clips_; }
  // For an executed plan, by layer: its attention on the integer kernels; empty: in f32.
  const std::vector<std::optional<ExecutedPlan>>& attention() const { return attention_; }

  // Whether the site has a dynamic scale per tensor or head: then all of its values must be seen before any is used.
  bool NeedsSurvey(Site site) const;
  bool SpansRows() const { return tare::SpansRows(plan_); }

 private:
  Plan plan_;
  Carrying carrying_;
  std::set<SiteKey> simulated_;  // of an executed plan
  std::map<SiteKey, std::vector<float>> clips_;
  std::vector<std::optional<ExecutedPlan>> attention_;  // one per layer, or empty
};

// As ResolvedPlan::NeedsSurvey, for one rule.
bool NeedsSurvey(const Rule& rule);
// Whether there is an f32 per tensor, besides the scales of blocks, that depends on the values (NVFP4). Not for maps,
// which are at most 1 and use 1, nor in caches, which use 1 as they do not know what comes.
bool HasTensorScale(const Rule& rule);
// Whether a difference gets unsigned codes, which need a zero point for its signs (quant/format/round.h).
bool HasZeroPoint(const Rule& rule);

// The input that these weights multiply. experts.down.in has one rule for a token's experts: the first expert's place.
SiteKey InputKeyOf(const SiteKey& weight);

// Refuses a selector that matches nothing in the model at this site; `where` starts the message.
void CheckSelector(const Rule& rule, Site site, const ModelSites& model, const std::string& where);
// Refuses rules that nothing can carry out on this model, or that simulation cannot.
void CheckRule(const Rule& rule, const ModelSites& model);
// Why a model under the plan cannot run token by token over a cache: decoding shows no maps, and later tokens are not
// known yet. "" if it can. CheckDecodes throws Error with it.
std::string WhyNotDecoded(const ResolvedPlan& plan);
void CheckDecodes(const ResolvedPlan& plan);

}  // namespace tare
