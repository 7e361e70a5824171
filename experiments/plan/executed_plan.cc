// SPDX-License-Identifier: Apache-2.0
#include "experiments/plan/resolved_plan.h"

#include <algorithm>
#include <cmath>

#include "experiments/plan/shared_scales.h"
#include "kernels/elementwise/rows.h"
#include "quant/base/find_in.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"

namespace tare {
namespace {

using Kind = Granularity::Kind;

// The rule of a layer's site, one for all its heads and maps; null: f32.
const Rule* OneRule(const ResolvedPlan& plan, const ModelSites& model, Site site, int layer) {
  const Rule* one = nullptr;
  bool seen = false;
  for (const SiteKey& key : model.Keys(site)) {
    if (key.layer != layer) continue;
    const Rule* rule = plan.RuleAt(key);
    if (seen && rule != one)
      RefuseRule(rule == nullptr ? *one : *rule, Formatted("a rule for some heads or maps of layer {}", layer),
                 "one for all of them", kSimulate);
    one = rule;
    seen = true;
  }
  return one;
}

// Writes the scales of values and of maps.
void SetScales(const Rule& values, const Rule& maps, AttentionPlan& attention) {
  const auto [kind, n] = values.granularity;
  const bool by_row = maps.granularity.kind == Kind::kRow;
  const int block = by_row ? n : maps.granularity.n;
  if (kind != Kind::kChannel && kind != Kind::kHead && (kind != Kind::kBlockChannel || n != block))
    RefuseRule(values, ScaleText(values),
               by_row ? "one per head, channel or block<N>.channel"
                      : Formatted("one per head or channel, or per block{}.channel as in probs or difference", block),
               kSimulate);
  attention.v_scale = kind == Kind::kChannel ? AttentionPlan::ValueScale::kSequence
                      : kind == Kind::kHead  ? AttentionPlan::ValueScale::kHead
                                             : AttentionPlan::ValueScale::kBlock;
  if (by_row) attention.prob_scale = AttentionPlan::ProbScale::kRow;
  if (block > 0) attention.block = block;
}

const Hadamard* RotationOf(const std::optional<RotatedRuns>& runs, int width) {
  return runs ? &PlanRotation(width, *runs) : nullptr;
}

FloatHeads<const float> Rotated(const FloatHeads<const float>& x, const Hadamard* rotation,
                                AlignedBuffer<float>& memory) {
  if (rotation == nullptr) return x;
  memory.Reserve(static_cast<size_t>(x.tokens) * static_cast<size_t>(x.heads) * static_cast<size_t>(x.width));
  const HeadsView<float> rotated = DenseHeads(memory.data(), x.tokens, x.heads, x.width);
  ParallelFor(static_cast<size_t>(x.tokens), [&](int64_t token, int) {
    for (int h = 0; h < x.heads; ++h)
      RotateRow(*rotation, Widened(x, h, token, 1, rotated.Row(token, h)).Row(token, h), rotated.Row(token, h));
  });
  return ReadOnly(rotated);
}

const float* MeanOf(const FloatHeads<const float>& x, const std::optional<MeanOver>& smooth, std::vector<float>& mean) {
  if (!smooth) return nullptr;
  mean.resize(static_cast<size_t>(x.heads) * static_cast<size_t>(x.width));
  MeanOfPrefix(x, mean.data(), *smooth == MeanOver::kAll ? x.tokens : kSmoothingTokens);
  return mean.data();
}

// The largest magnitude of what shares each token's scale, [heads][tokens], counted from `before` tokens before the
// first; else null. Kernels name values that are not finite.
const float* SharedMagnitudes(const FloatHeads<const float>& x, int64_t before, const float* mean, Granularity scale,
                              std::vector<float>& magnitudes) {
  if (scale.kind == Kind::kToken) return nullptr;
  magnitudes.resize(static_cast<size_t>(x.heads) * static_cast<size_t>(x.tokens));
  ParallelFor(static_cast<size_t>(x.heads), [&](int64_t head, int) {
    float* const of_tokens = magnitudes.data() + head * x.tokens;
    std::vector<float> row(static_cast<size_t>(x.width));
    for (int64_t first = -(before % scale.n); first < x.tokens; first += scale.n) {
      const int64_t begin = std::max<int64_t>(first, 0), end = std::min(first + scale.n, x.tokens);
      std::array<float, 8> largest{};
      for (int64_t t = begin; t < end; ++t) {
        for (int i = 0; i < x.width; ++i)
          row[i] = x.At(t, static_cast<int>(head), i) - (mean == nullptr ? 0.0f : mean[head * x.width + i]);
        const float absmax = AbsMax(row.data(), row.size());
        float& shared = largest[ScaleOfToken(scale.kind, t - first)];
        if (std::isfinite(absmax)) shared = std::max(shared, absmax);
      }
      for (int64_t t = begin; t < end; ++t) of_tokens[t] = largest[ScaleOfToken(scale.kind, t - first)];
    }
  });
  return magnitudes.data();
}

}  // namespace

std::optional<ExecutedPlan> ExecutedPlanOf(const ResolvedPlan& plan, const ModelSites& model, int layer) {
  const auto one = [&](Site site) {
    const bool shared = (site == Site::kK || site == Site::kV) && !model.keys_layer.empty();
    return OneRule(plan, model, site, shared ? model.keys_layer[static_cast<size_t>(layer)] : layer);
  };
  std::array<const Rule*, kAttentionSites.size()> rules;
  std::ranges::transform(kAttentionSites, rules.begin(), one);
  const auto [q, k, v, logits, probs, difference] = rules;
  const Rule* const* const first = FindWhere(rules, [](const Rule* rule) { return rule != nullptr; });
  if (first == nullptr) return std::nullopt;
  const bool early = difference != nullptr;
  const Rule* p = early ? difference : probs;
  for (const auto& [rule, site] : {std::pair(q, "q"), {k, "k"}, {p, "probs"}, {v, "v"}}) {
    if (rule == nullptr)
      RefuseRule(**first, Formatted("{} in f32 in layer {}", site, layer),
                 "all four, as q=int8/token,k=int8/token,probs=u8/block64,v=int8/block64.channel", kSimulate);
    CheckUse(*rule, Use::kAttention);
  }
  const RuleOptions &of_q = q->options, &of_k = k->options, &of_v = v->options;
  if (of_q.hadamard != of_k.hadamard)
    RefuseRule(of_q.hadamard ? *q : *k, "a rotation that q and k do not share",
               "the same +hadamard for both, as products of rotated rows need", kSimulate);
  ExecutedPlan executed{.smooth_q = of_q.smooth,
                        .smooth_k = of_k.smooth,
                        .smooth_v = of_v.smooth,
                        .scale_q = q->granularity,
                        .scale_k = k->granularity,
                        .rotated_qk = of_k.hadamard,
                        .rotated_v = of_v.hadamard};
  AttentionPlan& attention = executed.attention;
  attention.order = early ? AttentionPlan::Order::kEarly : AttentionPlan::Order::kLate;
  attention.q = q->format, attention.k = k->format, attention.v = v->format;
  attention.probs = p->format, attention.top = static_cast<float>(p->options.top.value_or(0));
  attention.unnormalized = p->options.unnormalized;
  SetScales(*v, *p, attention);
  if (attention.unnormalized && of_v.smooth)
    RefuseRule(*v, "+smooth with +unnormalized maps, whose rows do not sum to 1", "v without it", kSimulate);
  if (logits == nullptr) return executed;
  CheckUse(*logits, Use::kAttention);
  if (of_k.smooth)
    RefuseRule(*k, "+smooth with a rule for attn_logits, whose codes it would shift", "k without it", kSimulate);
  attention.logits = logits->format;
  return executed;
}

bool HasKernel(Site site) {
  return IsWeight(site) || WeightOf(site) || IsCache(site) || std::ranges::contains(kAttentionSites, site);
}

ExecutedPlan ExecutedPlanOfText(const std::string& where, const std::string& plan, int heads) {
  const Plan parsed = Plan::Parse(plan);
  for (const Rule& rule : parsed.rules()) {
    if (!rule.selector.layers.empty())
      RefuseRule(rule, "a selector of layers", "one plan for all layers", "the rule without it");
  }
  ModelSites layer{.family = "one layer", .layers = 1, .maps = 2, .tied_head = false, .heads = {}, .weights = {}};
  for (const Site site : kAttentionSites) layer.heads[site].resize(static_cast<size_t>(heads));
  const ResolvedPlan resolved(parsed, layer, Carrying::kExecuted);
  if (resolved.attention().empty() || !resolved.attention().front())
    Fail("{}, plan '{}': got no rule for attention, expected q, k, v and probs or difference", where, plan);
  return *resolved.attention().front();
}

ExecutedSequence::ExecutedSequence(const ExecutedPlan& plan, const AttentionProblem& sequence, ExecutedMemory& memory,
                                   int64_t before)
    : plan_(plan.attention), problem_(sequence), of_outputs_(RotationOf(plan.rotated_v, sequence.v.width)) {
  const Hadamard* const of_logits = RotationOf(plan.rotated_qk, sequence.q.width);
  if (of_outputs_ != nullptr) CheckF32("attention out, +hadamard of v", {.out = sequence.out});
  problem_.q = Rotated(sequence.q, of_logits, memory.q);
  problem_.k = Rotated(sequence.k, of_logits, memory.k);
  problem_.v = Rotated(sequence.v, of_outputs_, memory.v);
  plan_.q_mean = MeanOf(problem_.q, plan.smooth_q, memory.q_mean);
  plan_.k_mean = MeanOf(problem_.k, plan.smooth_k, memory.k_mean);
  plan_.v_mean = MeanOf(problem_.v, plan.smooth_v, memory.v_mean);
  plan_.q_absmax = SharedMagnitudes(problem_.q, before, plan_.q_mean, plan.scale_q, memory.q_absmax);
  plan_.k_absmax = SharedMagnitudes(problem_.k, 0, plan_.k_mean, plan.scale_k, memory.k_absmax);
}

size_t ExecutedSequence::WorkspaceBytes() const { return tare::WorkspaceBytes(plan_, problem_); }

void ExecutedSequence::Run(std::span<std::byte> workspace) const {
  ExecutedAttention(plan_, problem_, workspace);
  if (of_outputs_ == nullptr) return;
  const HeadsView<float>& out = problem_.out;
  ParallelFor(static_cast<size_t>(out.tokens), [&](int64_t token, int) {
    for (int h = 0; h < out.heads; ++h) {
      float* const row = out.Row(token, h);
      for (int slice = 0; slice < out.width; slice += problem_.v.width)
        RotateRowBack(*of_outputs_, row + slice, row + slice);
    }
  });
}

}  // namespace tare
