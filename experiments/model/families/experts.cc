// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/families/experts.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "experiments/model/activation.h"
#include "experiments/model/batch.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"

namespace tare {
namespace {

// Chooses experts of one token: of logits [experts] their numbers and shares, largest first.
void Choose(std::vector<float>& logits, const std::vector<float>& bias, const ModelConfig& c, int32_t* chosen,
            float* shares) {
  const bool of_sigmoids = c.router_scores == RouterScores::kSigmoid;
  if (of_sigmoids) Sigmoid(logits.data(), logits.size());
  std::vector<float> ranked(logits);
  AddTo(ranked.data(), bias.data(), bias.size());
  if (!of_sigmoids) logits = ranked;
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto larger = [&](int32_t a, int32_t b) { return ranked[a] != ranked[b] ? ranked[a] > ranked[b] : a < b; };
  const auto count = static_cast<size_t>(c.chosen_experts);
  std::partial_sort(order.begin(), order.begin() + count, order.end(), larger);
  for (size_t i = 0; i < count; ++i) {
    chosen[i] = order[i];
    shares[i] = logits[order[i]];
  }
  constexpr float kTiny = 1e-20f;  // of Motif-3's code
  if (of_sigmoids)
    return ScaleInto(shares, c.route_scale / (std::accumulate(shares, shares + count, 0.0f) + kTiny), count, shares);
  if (c.shares_sum) return Softmax(shares, count);
  Softmax(logits.data(), logits.size());
  for (size_t i = 0; i < count; ++i) shares[i] = logits[order[i]];
}

void Route(const LayerCall& call, const RouterNames& names) {
  const ModelConfig& c = call.config;
  const std::vector<float>& weight = call.weights.vectors.at(names.weight);
  const std::vector<float> none(static_cast<size_t>(c.experts));
  const std::vector<float>& bias = names.bias.empty() ? none : call.weights.vectors.at(names.bias);
  const int64_t E = c.hidden, k = c.chosen_experts, rows = call.batch.Rows();
  ExpertActivations& x = call.a.experts;
  x.chosen.resize(static_cast<size_t>(rows * k));
  x.shares.resize(static_cast<size_t>(rows * k));
  ForRows(call, [&](int64_t row) {
    const float* const normed = call.a.normed.data() + row * E;
    std::vector<float> logits(bias.size());
    RowProduct({.data = weight.data(), .out = c.experts, .in = E}, Math::kF32, normed, nullptr, logits.data());
    Choose(logits, bias, c, x.chosen.data() + row * k, x.shares.data() + row * k);
  });
}

// An expert's products of the rows that reach it: read(i, x) gives row i of x [rows, columns], write(i) follows them.
template <typename Read, typename Write>
void ProjectExpert(const LayerCall& call, std::span<const LinearProduct> products, int64_t rows, int64_t columns,
                   Read read, Write write) {
  AlignedBuffer<float>& x = call.a.experts.gathered;
  GrowRows(x, rows, columns);
  ParallelFor(static_cast<size_t>(rows), [&](size_t i, int) { read(i, x.data() + static_cast<int64_t>(i) * columns); });
  call.products.Project(x.data(), rows, products);
  ParallelFor(static_cast<size_t>(rows), [&](int64_t i, int) { write(i); });
}

}  // namespace

void FeedExperts(const LayerCall& call, const RouterNames& router, const ExpertUnit& unit) {
  if (!call.Runs()) return;
  const ModelConfig& c = call.config;
  const LayerWeights& w = call.weights;
  const int64_t E = c.hidden, I = c.ffn, k = c.chosen_experts, rows = call.batch.Rows();
  ExpertActivations& x = call.a.experts;
  Route(call, router);
  ShowRows(call, Site::kExpertsGateUpIn, call.a.normed.data(), E);
  GrowRows(x.inner, rows, k * I);
  // Each expert's places among all choices: the row times k, plus the index among the row's k choices.
  std::map<size_t, std::vector<int64_t>> places;
  for (int64_t i = 0; i < rows * k; ++i) places[static_cast<size_t>(x.chosen[i])].push_back(i);
  for (const auto& [e, at] : places) {
    GrowRows(x.made, std::ssize(at), w.experts_gate_up[e].stored().out);
    GrowRows(x.up, c.gate_with_up ? 0 : std::ssize(at), I);
    std::vector<LinearProduct> widen{{w.experts_gate_up[e], x.made.data()}};
    if (!c.gate_with_up) widen.push_back({w.experts_up[e], x.up.data()});
    ProjectExpert(
        call, widen, std::ssize(at), E,
        [&](size_t i, float* row) { std::copy_n(call.a.normed.data() + at[i] / k * E, E, row); },
        [&](int64_t i) {
          float* const inner = x.inner.data() + at[static_cast<size_t>(i)] * I;
          if (c.gate_with_up) return unit(e, x.made.data() + i * 2 * I, inner, static_cast<size_t>(I));
          std::copy_n(x.made.data() + i * I, I, inner);
          c.activation->Gate(inner, x.up.data() + i * I, static_cast<size_t>(I));
        });
  }
  ShowHeads(call, Site::kExpertsDownIn, x.inner.data(), k, I);
  if (c.shared_ffn == 0) std::fill_n(call.a.delta.data(), rows * E, 0.0f);
  for (const auto& [e, at] : places) {
    GrowRows(x.made, std::ssize(at), E);
    const LinearProduct narrow{w.experts_down[e], x.made.data()};
    ProjectExpert(
        call, {&narrow, 1}, std::ssize(at), I,
        [&](size_t i, float* row) { std::copy_n(x.inner.data() + at[i] * I, I, row); },
        [&](int64_t i) {  // a token chooses an expert once
          const auto place = static_cast<size_t>(i);
          float* const row = x.made.data() + i * E;
          ScaleInto(row, x.shares[at[place]], static_cast<size_t>(E), row);
          AddTo(call.a.delta.data() + at[place] / k * E, row, static_cast<size_t>(E));
        });
  }
}

void ClampedSwiGlu(size_t, const float* gate_up, float* inner, size_t width) {
  constexpr float kLimit = 7.0f, kAlpha = 1.702f;
  for (size_t i = 0; i < width; ++i) {
    const float gate = std::min(gate_up[2 * i], kLimit), up = std::clamp(gate_up[2 * i + 1], -kLimit, kLimit);
    inner[i] = (up + 1.0f) * gate / (1.0f + std::exp(-kAlpha * gate));
  }
}

void ExpertsForward(const LayerCall& call, const RouterNames& router, const ExpertUnit& unit) {
  if (!call.config.Routes(call.layer)) return LlamaForward(call);
  AddAttention(call);
  NormRows(call, call.weights.vectors.at(kPostAttentionNorm));
  FeedExperts(call, router, unit);
  AddDelta(call);
}

void ReadExperts(const ConfigKeys& keys, ModelConfig& c, ExpertCounts otherwise) {
  constexpr int kMost = 1 << 14;  // so that all rows of a layer are counted by 64 bits
  const char* const key = keys.Has("num_experts") ? "num_experts" : "num_local_experts";
  c.experts = keys.Integer(key, 1, otherwise.experts);
  if (c.experts > kMost) Fail("{}: {}: got {}, expected 1 to {}", keys.where(), key, c.experts, kMost);
  if (const int also = keys.Integer("num_local_experts", 1, c.experts); also != c.experts)
    Fail("{}: num_local_experts: got {}, expected num_experts {}", keys.where(), also, c.experts);
  c.chosen_experts = keys.Integer("num_experts_per_tok", 1, otherwise.chosen);
  if (c.chosen_experts > c.experts)
    Fail("{}: num_experts_per_tok: got {}, expected at most {} {}", keys.where(), c.chosen_experts, key, c.experts);
  if (const int also = keys.Integer("experts_per_token", 1, c.chosen_experts); also != c.chosen_experts)
    Fail("{}: experts_per_token: got {}, expected num_experts_per_tok {}", keys.where(), also, c.chosen_experts);
}

}  // namespace tare
