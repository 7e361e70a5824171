// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/layer_attention.h"

#include <algorithm>

#include "experiments/model/batch.h"
#include "experiments/model/config/family.h"
#include "experiments/plan/refusals.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"

namespace tare {
namespace {

constexpr Site kShown[] = {Site::kQ,     Site::kK,          Site::kV,      Site::kAttnLogits,
                           Site::kProbs, Site::kDifference, Site::kHeadOut};

int HeadsAt(Site site, const AttentionProblem& problem) {
  if (site == Site::kK) return problem.k.heads;
  if (site == Site::kV) return problem.v.heads;
  return site == Site::kDifference || site == Site::kHeadOut ? static_cast<int>(problem.heads.size()) : problem.q.heads;
}

// Dense, [R][heads][width], in f32.
HeadsView<float> Copy(const FloatHeads<const float>& from, AlignedBuffer<float>& to) {
  to.Reserve(static_cast<size_t>(from.tokens * from.heads * from.width));
  const HeadsView<float> copy = DenseHeads(to.data(), from.tokens, from.heads, from.width);
  ParallelFor(static_cast<size_t>(from.tokens), [&](int64_t row, int) {
    for (int head = 0; head < from.heads; ++head) {
      for (int i = 0; i < from.width; ++i) copy.Row(row, head)[i] = from.At(row, head, i);
    }
  });
  return copy;
}

}  // namespace

std::vector<OutputHead> HeadsNamed(std::string_view family, int q_heads, int k_heads, int v_heads) {
  constexpr std::string_view kNames[] = {"standard", "v1", "v2", "diffllama", "halves"};
  if (!std::ranges::contains(kNames, family))
    Fail("heads: got '{}', expected {} or a table of heads", family, Listed(kNames, ", "));
  const int of_k = family == "v1" || family == "halves" ? 2 : 1;  // k heads of a v head
  if (v_heads * of_k != k_heads)
    Fail("heads '{}': got {} heads of k and {} of v, expected {} of k for each of v", family, k_heads, v_heads, of_k);
  if (family == "standard") return StandardHeads(q_heads, k_heads);
  if (q_heads % 2 != 0) Fail("heads '{}': got {} heads of q, expected pairs of maps", family, q_heads);
  if (family == "diffllama") return DiffLlamaHeads(q_heads, k_heads);
  if (family == "halves") return HalvesHeads(q_heads / 2, v_heads);
  return family == "v1" ? V1Heads(q_heads / 2, v_heads) : V2Heads(q_heads / 2, k_heads);
}

ModelSites AttentionSites(const AttentionProblem& problem, const std::vector<int>& layers) {
  const bool differential = std::ranges::any_of(problem.heads, &OutputHead::Differential);
  ModelSites sites{.family = "captured",
                   .layers = layers.back() + 1,
                   .head_dim = problem.q.width,
                   .maps = differential ? 2 : 1,
                   .row_weights = problem.weights,
                   .no_prerotary = "captured keys, which have their rotary positions"};
  for (const SiteInfo& info : kSites) sites.layers_of[info.site] = {};
  for (const Site site : kShown) {
    if (site == Site::kDifference && !differential) continue;
    sites.layers_of[site] = layers;
    for (int head = 0; head < HeadsAt(site, problem); ++head)
      sites.heads[site].push_back(MapOf(problem.heads, site, head));
  }
  return sites;
}

void RequireRules(const Plan& plan) {
  constexpr std::string_view kRules = "q, k, v, attn_logits, probs, difference or head_out";
  for (const Rule& rule : plan.rules()) {
    if (const Site site = rule.sites.front(); IsCache(site))
      RefuseRule(rule, Name(site), kRules, site == Site::kCacheK ? "k=int4/token" : "v=int4/token");
    if (rule.options.static_scale)
      RefuseRule(rule, "+static", "scales of the arrays themselves, without statistics", "the rule without it");
  }
  if (std::ranges::none_of(kShown, [&](Site site) { return plan.Touches(site); }))
    FailUsage("plan '{}': got no rule for attention, expected {}", plan.canonical(), kRules);
}

void SimulatedAttention::Run(const AttentionProblem& problem, std::span<const AttentionSequence> sequences, int layer,
                             SiteVisitors observers) {
  if (problem.k.tokens != problem.q.tokens)
    Fail(
        "attention, simulated: got {} queries over {} keys, expected as many, as in a model's pass; try the queries "
        "of all tokens",
        problem.q.tokens, problem.k.tokens);
  std::vector<SiteVisitor*> visitors{&means_, &quantizer_, &sink_};
  visitors.insert(visitors.end(), observers.begin(), observers.end());
  const TokenBatch batch{.tokens = {}, .sequences = {sequences.begin(), sequences.end()}, .caches = {}};
  for (SiteVisitor* v : visitors) v->BeginBatch(std::ssize(sequences));
  const HeadsView<float> q = Copy(problem.q, q_), k = Copy(problem.k, k_), v = Copy(problem.v, v_);
  const auto show = [&](Site site, const HeadsView<float>& values) {
    ShowHeads(visitors, site, layer, batch, problem.heads, values);
  };
  show(Site::kQ, q);
  show(Site::kK, k);
  show(Site::kV, v);
  AttentionProblem rounded = problem;
  rounded.q = ReadOnly(q), rounded.k = ReadOnly(k), rounded.v = ReadOnly(v);
  FloatAttention({rounded, sequences, visitors, layer});
  show(Site::kHeadOut, problem.out);
}

}  // namespace tare
