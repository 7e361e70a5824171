// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/expert_layers.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "experiments/model/seen_projection.h"
#include "experiments/model/show_sites.h"
#include "quant/base/error.h"
#include "quant/base/parallel.h"

namespace tare {
namespace {

// Chooses experts of one token: of logits [experts] their numbers and shares, largest first.
void Choose(const std::vector<float>& logits, int count, int32_t* chosen, float* shares) {
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto larger = [&](int32_t a, int32_t b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; };
  std::partial_sort(order.begin(), order.begin() + count, order.end(), larger);
  for (int i = 0; i < count; ++i) {
    chosen[i] = order[i];
    shares[i] = logits[order[i]];
  }
  Softmax(shares, static_cast<size_t>(count));
}

void Route(const LayerCall& call, const RouterNames& names) {
  const ModelConfig& c = call.config;
  const std::vector<float>&weight = call.weights.vectors.at(names.weight), &bias = call.weights.vectors.at(names.bias);
  const int64_t E = c.hidden, k = c.chosen_experts, rows = call.batch.Rows();
  ExpertActivations& x = call.a.experts;
  x.chosen.resize(static_cast<size_t>(rows * k));
  x.shares.resize(static_cast<size_t>(rows * k));
  ForRows(call, [&](int64_t row) {
    const float* const normed = call.a.normed.data() + row * E;
    std::vector<float> logits(bias);
    for (size_t e = 0; e < logits.size(); ++e)
      logits[e] += std::inner_product(normed, normed + E, weight.data() + static_cast<int64_t>(e) * E, 0.0f);
    Choose(logits, c.chosen_experts, x.chosen.data() + row * k, x.shares.data() + row * k);
  });
}

// An expert's rows of a matrix of all, made in the memory where only codes are kept.
WeightMatrix WeightOf(const LayerCall& call, const LinearWeights& linear, int64_t expert, AlignedBuffer<char>& memory) {
  const WeightMatrix& all = linear.Float();
  const int64_t out = all.out / call.config.experts, first = expert * out;
  if (all.data == nullptr) {
    const WeightType type = call.projector.math() == Math::kBf16 ? WeightType::kBf16 : WeightType::kF32;
    return FillMatrix(memory, type, out, all.in, [&](int64_t row, float* y) { RowAsFloat(all, first + row, y); });
  }
  const int64_t width = all.type == WeightType::kF32 ? 4 : 2;
  return {static_cast<const std::byte*>(all.data) + first * all.in * width, all.type, out, all.in};
}

// One expert's projection of the rows that reach it: read(i, x) gives row i, write(i, y) takes it.
template <typename Read, typename Write>
void ProjectRows(const LayerCall& call, const LinearWeights& linear, int64_t expert, int64_t rows, Read read,
                 Write write) {
  TARE_CHECK(linear.planned == nullptr || !linear.planned->activation);  // plans with such rules are refused
  ExpertActivations& x = call.a.experts;
  const WeightMatrix weight = WeightOf(call, linear, expert, call.a.dequantized.front());
  GrowRows(x.gathered, rows, weight.in);
  GrowRows(x.made, rows, weight.out);
  ParallelFor(static_cast<size_t>(rows),
              [&](size_t i, int) { read(i, x.gathered.data() + static_cast<int64_t>(i) * weight.in); });
  const float* const bias = linear.bias.empty() ? nullptr : linear.bias.data() + expert * weight.out;
  const Projection projection{weight, bias, x.made.data()};
  call.projector.Project(x.gathered.data(), rows, {&projection, 1});
  ParallelFor(static_cast<size_t>(rows),
              [&](size_t i, int) { write(i, x.made.data() + static_cast<int64_t>(i) * weight.out); });
}

// Of each expert, where it was chosen: row k + the place among the row's choices.
std::vector<std::vector<int64_t>> PlacesOf(const std::vector<int32_t>& chosen, int experts) {
  std::vector<std::vector<int64_t>> places(static_cast<size_t>(experts));
  for (size_t i = 0; i < chosen.size(); ++i) places[static_cast<size_t>(chosen[i])].push_back(static_cast<int64_t>(i));
  return places;
}

}  // namespace

void ClampedSwiGlu(const float* gate_up, float* inner, size_t width) {
  constexpr float kLimit = 7.0f, kAlpha = 1.702f;
  for (size_t i = 0; i < width; ++i) {
    const float gate = std::min(gate_up[2 * i], kLimit), up = std::clamp(gate_up[2 * i + 1], -kLimit, kLimit);
    inner[i] = (up + 1.0f) * gate / (1.0f + std::exp(-kAlpha * gate));
  }
}

void FeedExperts(const LayerCall& call, const RouterNames& router, ExpertUnit unit) {
  const ModelConfig& c = call.config;
  const int64_t E = c.hidden, I = c.ffn, k = c.chosen_experts, rows = call.batch.Rows();
  ExpertActivations& x = call.a.experts;
  Route(call, router);
  ShowRows(call.visitors, Site::kExpertsGateUpIn, call.layer, call.batch, call.a.normed.data(), E);
  GrowRows(x.inner, rows, k * I);
  const std::vector<std::vector<int64_t>> places = PlacesOf(x.chosen, c.experts);
  for (size_t e = 0; e < places.size(); ++e) {
    const std::vector<int64_t>& at = places[e];
    if (at.empty()) continue;
    ProjectRows(
        call, call.weights.experts_gate_up, static_cast<int64_t>(e), std::ssize(at),
        [&](size_t i, float* row) { std::copy_n(call.a.normed.data() + at[i] / k * E, E, row); },
        [&](size_t i, const float* row) { unit(row, x.inner.data() + at[i] * I, static_cast<size_t>(I)); });
  }
  ShowHeads(call.visitors, Site::kExpertsDownIn, call.layer, call.batch, call.weights.heads,
            DenseHeads(x.inner.data(), rows, static_cast<int>(k), static_cast<int>(I)));
  std::fill_n(call.a.delta.data(), rows * E, 0.0f);
  for (size_t e = 0; e < places.size(); ++e) {
    const std::vector<int64_t>& at = places[e];
    if (at.empty()) continue;
    ProjectRows(
        call, call.weights.experts_down, static_cast<int64_t>(e), std::ssize(at),
        [&](size_t i, float* row) { std::copy_n(x.inner.data() + at[i] * I, I, row); },
        [&](size_t i, float* row) {  // a token chooses an expert once
          ScaleInto(row, x.shares[static_cast<size_t>(at[i])], static_cast<size_t>(E), row);
          AddTo(call.a.delta.data() + at[i] / k * E, row, static_cast<size_t>(E));
        });
  }
}

}  // namespace tare
