// SPDX-License-Identifier: Apache-2.0
#include "experiments/bench/attention_inputs.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <random>

#include "experiments/plan/resolved_plan.h"
#include "experiments/plan/simulated/simulated_quantizer.h"
#include "kernels/attention/float/fused_attention.h"
#include "kernels/attention/reference_attention.h"
#include "quant/base/integers.h"
#include "quant/base/message.h"

namespace tare {
namespace {

constexpr int64_t kMostRows = 256;

Mask MaskOf(const std::string& name) {
  if (name != "causal" && name != "full") Fail("bench attention, mask: got '{}', expected causal or full", name);
  return {name == "full" ? Mask::Kind::kFull : Mask::Kind::kCausal};
}

// Query row t alone, as a problem with the keys that it sees.
AttentionProblem OneRow(const AttentionProblem& p, int64_t t, float* out) {
  const KeyRange keys = p.Keys(t);
  AttentionProblem one = p;
  one.mask.kind = Mask::Kind::kFull;
  one.q.data = p.q.Row(t, 0);
  one.k.data = p.k.Row(keys.begin, 0);
  one.v.data = p.v.Row(keys.begin, 0);
  one.lambda.data += t * p.lambda.token_stride;
  one.q.tokens = one.out.tokens = 1;
  one.k.tokens = one.v.tokens = keys.end - keys.begin;
  one.out.data = out;
  return one;
}

struct Sums {
  double error = 0, want = 0, got = 0, product = 0;
  void Add(double g, double w) {
    error += (g - w) * (g - w);
    want += w * w;
    got += g * g;
    product += g * w;
  }
};

}  // namespace

AttentionInputs::AttentionInputs(const AttentionCase& c) : lambda_(c.lambda) {
  if (c.captured != nullptr) {
    problem_ = PartOf(*c.captured, {0, c.n}, {0, c.n});
  } else {
    Make(c);
  }
  const int heads = static_cast<int>(problem_.heads.size()),
            width = problem_.heads.front().VSlices() * problem_.v.width;
  out_.Reset(static_cast<size_t>(c.n) * heads * width);
  std::fill_n(out_.data(), out_.size(), 0.0f);
  problem_.out = DenseHeads(out_.data(), c.n, heads, width);
}

void AttentionInputs::Make(const AttentionCase& c) {
  const Mask mask = MaskOf(c.mask);
  const int64_t keys = c.keys == 0 ? c.n : c.keys;
  const int kv = c.kv_heads == 0 ? c.heads : c.kv_heads;
  if (c.n < 1 || c.d < 1 || c.heads < 1)
    Fail("bench attention: got n {}, d {}, heads {}; expected at least 1 of each", c.n, c.d, c.heads);
  if (kv < 1 || c.heads % kv != 0)
    Fail("bench attention: got {} key/value heads, expected a divisor of {} heads", kv, c.heads);
  if (keys < 1 || (mask.kind != Mask::Kind::kFull && keys < c.n))
    Fail(
        "bench attention: got {} keys for {} queries, expected at least as many under a causal mask, and one under a "
        "full",
        keys, c.n);
  const bool standard = c.family == "standard", v1 = c.family == "v1";
  if (!standard && !v1 && c.family != "v2")
    Fail("bench attention, family: got '{}', expected standard, v1 or v2", c.family);
  const int q_heads = standard ? c.heads : 2 * c.heads, k_heads = v1 ? 2 * kv : kv, width = v1 ? 2 * c.d : c.d;
  heads_ = standard ? StandardHeads(c.heads, kv) : v1 ? V1Heads(c.heads, kv) : V2Heads(c.heads, kv);
  std::mt19937_64 random(c.seed);
  std::normal_distribution<float> normal;
  const auto fill = [&](std::vector<float>& x, int64_t tokens, int count, int size) {
    x.resize(static_cast<size_t>(tokens) * count * size);
    for (float& value : x) value = normal(random);
    return DenseHeads<const float>(x.data(), tokens, count, size);
  };
  problem_ = {.q = fill(q_, c.n, q_heads, c.d),
              .k = fill(k_, keys, k_heads, c.d),
              .v = fill(v_, keys, kv, width),
              .heads = heads_,
              .lambda = {&lambda_, 0, 0},
              .mask = mask,
              .scale = 1.0f / std::sqrt(static_cast<float>(c.d))};
  Shape(c.data);
}

void AttentionInputs::Shape(const std::string& data) {
  if (data != "gaussian" && data != "sink" && data != "vbias" && data != "diffuse")
    Fail("bench attention, data: got '{}', expected gaussian, sink, vbias or diffuse", data);
  const int d = problem_.q.width;
  const auto width = static_cast<size_t>(d);
  if (data == "diffuse") {
    for (float& x : q_) x *= 0.1f;
  } else if (data != "gaussian") {
    // Queries share a half in every channel, which key 0 has 16 / sqrt(d) of: d * 0.5 * 16 / sqrt(d) / sqrt(d) nats,
    // and no channel that would cost the others their codes.
    for (float& x : q_) x += 0.5f;
    for (size_t i = 0; i < problem_.k.heads * width; ++i) k_[i] += 16.0f / std::sqrt(static_cast<float>(d));
  }
  if (data == "vbias") {
    for (float& x : v_) x += 2.0f;
  }
}

double AttentionInputs::LeastOperations() const {
  const double of_pair = 2.0 * problem_.q.width * problem_.heads.front().Maps() + 2.0 * problem_.out.width;
  return of_pair * static_cast<double>(CountPairs(problem_));
}

AttentionInputs::Errors AttentionInputs::ErrorsOfOut() const {
  const int64_t n = problem_.q.tokens, step = CeilDiv(n, kMostRows);
  const int width = problem_.out.width;
  std::vector<float> unused(static_cast<size_t>(problem_.out.heads) * width);
  for (int64_t t = want_.empty() ? step - 1 : n; t < n; t += step) {
    const AttentionProblem one = OneRow(problem_, t, unused.data());
    std::ranges::copy(ReferenceAttentionDouble(one), std::back_inserter(want_));
    std::ranges::copy(ReferenceMagnitudes(one), std::back_inserter(magnitudes_));
  }
  Sums all;
  double worst = 0;
  const double* want = want_.data();
  for (int64_t t = step - 1, head = 0; t < n; t += step) {
    for (int h = 0; h < problem_.out.heads; ++h, want += width) {
      Sums row;
      for (int i = 0; i < width; ++i) {
        row.Add(problem_.out.Row(t, h)[i], want[i]);
        all.Add(problem_.out.Row(t, h)[i], want[i]);
      }
      worst = std::max(worst, std::sqrt(row.error) / std::max(std::sqrt(row.want), 0.01 * magnitudes_[head++]));
    }
  }
  return {std::sqrt(all.error / all.want), worst, all.product / std::sqrt(all.got * all.want)};
}

AttentionInputs::Errors FloorErrors(const AttentionInputs& inputs, const std::string& plan) {
  AttentionProblem p = inputs.problem();
  ModelSites layer{.family = "one layer", .layers = 1, .maps = 2, .tied_head = false, .heads = {}, .weights = {}};
  for (const Site site : kAttentionSites) layer.heads[site].resize(1);  // kernels take one rule for all heads
  const ResolvedPlan resolved(Plan::Parse(plan), layer, Carrying::kSimulated);
  SimulatedQuantizer quantizer(resolved);
  const auto coded = [&](HeadsView<const float>& x, Site site) {
    std::vector<float> values(x.data, x.data + x.tokens * x.token_stride);
    for (int head = 0; head < x.heads; ++head)
      quantizer.Visit({.site = site,
                       .layer = 0,
                       .head = 0,
                       .rows = x.tokens,
                       .first_columns = x.width,
                       .values = values.data() + head * x.head_stride,
                       .stride = x.token_stride},
                      0);
    x.data = values.data();
    return values;
  };
  const std::vector<float> q = coded(p.q, Site::kQ), k = coded(p.k, Site::kK), v = coded(p.v, Site::kV);
  AlignedBuffer<std::byte> workspace(FusedWorkspaceBytes(p));
  FusedAttention(p, workspace.span());
  return inputs.ErrorsOfOut();
}

}  // namespace tare
