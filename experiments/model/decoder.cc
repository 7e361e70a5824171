// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/decoder.h"

#include <algorithm>
#include <cmath>
#include <format>

#include "kernels/elementwise/rows.h"
#include "quant/base/parallel.h"

namespace tare {
namespace {

LinearWeights LoadLinear(Weights& weights, const std::string& name, int64_t out, int64_t in, bool has_bias) {
  LinearWeights linear{.weight = weights.Matrix(name + ".weight", out, in), .bias = {}};
  if (has_bias) linear.bias = weights.Vector(name + ".bias", out);
  return linear;
}

Projection To(const LinearWeights& linear, AlignedBuffer<float>& y) {
  return {.weight = linear.weight, .bias = linear.bias.empty() ? nullptr : linear.bias.data(), .y = y.data()};
}

void ForRows(const LayerCall& call, const std::function<void(int64_t row)>& body) {
  constexpr int64_t kRows = 16;
  const int64_t rows = call.batch.Rows();
  ParallelFor(static_cast<size_t>((rows + kRows - 1) / kRows), [&](size_t block, int) {
    const int64_t begin = static_cast<int64_t>(block) * kRows;
    for (int64_t row = begin; row < std::min(begin + kRows, rows); ++row) body(row);
  });
}

void AddRows(const LayerCall& call) {
  const int64_t E = call.config.hidden;
  ForRows(call, [&](int64_t row) { AddTo(call.a.x.data() + row * E, call.a.delta.data() + row * E, E); });
}

// Zeroed, so that the rows that only pad hold finite values.
void Grow(AlignedBuffer<float>& buffer, int64_t rows, int64_t columns) {
  const auto size = static_cast<size_t>(PaddedRows(rows) * columns);
  if (size <= buffer.size()) return;
  buffer.Reset(size);
  std::fill_n(buffer.data(), size, 0.0f);
}

}  // namespace

LayerWeights LoadLayer(Weights& weights, const ModelConfig& c, int layer) {
  const std::string prefix = std::format("model.layers.{}.", layer);
  const int64_t E = c.hidden, I = c.ffn, q = int64_t{c.heads} * c.head_dim, kv = int64_t{c.kv_heads} * c.head_dim;
  LayerWeights w;
  w.input_norm = weights.Vector(prefix + "input_layernorm.weight", E);
  w.post_attention_norm = weights.Vector(prefix + "post_attention_layernorm.weight", E);
  w.q = LoadLinear(weights, prefix + "self_attn.q_proj", q, E, c.attention_bias);
  w.k = LoadLinear(weights, prefix + "self_attn.k_proj", kv, E, c.attention_bias);
  w.v = LoadLinear(weights, prefix + "self_attn.v_proj", kv, E, c.attention_bias);
  w.o = LoadLinear(weights, prefix + "self_attn.o_proj", E, q, c.attention_bias);
  w.gate = LoadLinear(weights, prefix + "mlp.gate_proj", I, E, c.mlp_bias);
  w.up = LoadLinear(weights, prefix + "mlp.up_proj", I, E, c.mlp_bias);
  w.down = LoadLinear(weights, prefix + "mlp.down_proj", E, I, c.mlp_bias);
  weights.Ignore(prefix + "self_attn.rotary_emb.inv_freq");  // a buffer that old llama checkpoints carry; recomputed
  return w;
}

void Activations::Prepare(const TokenBatch& batch, const ModelConfig& c) {
  const int64_t rows = batch.Rows(), q_width = int64_t{c.heads} * c.head_dim,
                kv_width = int64_t{c.kv_heads} * c.head_dim;
  for (AlignedBuffer<float>* buffer : {&x, &normed, &delta}) Grow(*buffer, rows, c.hidden);
  for (AlignedBuffer<float>* buffer : {&q, &attended}) Grow(*buffer, rows, q_width);
  for (AlignedBuffer<float>* buffer : {&k, &v}) Grow(*buffer, rows, kv_width);
  for (AlignedBuffer<float>* buffer : {&gate, &up}) Grow(*buffer, rows, c.ffn);
  positions.clear();
  for (const AttentionSequence& s : batch.sequences) {
    for (int64_t p = 0; p < s.prefix; ++p) positions.push_back(p);
    for (const int64_t tokens : s.branches) {
      for (int64_t p = 0; p < tokens; ++p) positions.push_back(s.prefix + p);
    }
  }
}

void NormRows(const LayerCall& call, const std::vector<float>& weight) {
  const int64_t E = call.config.hidden;
  ForRows(call, [&](int64_t row) {
    RmsNorm(call.a.x.data() + row * E, weight.data(), call.config.norm_eps, E, call.a.normed.data() + row * E);
  });
}

void ProjectQkv(const LayerCall& call) {
  const LayerWeights& w = call.weights;
  const Projection projections[] = {To(w.q, call.a.q), To(w.k, call.a.k), To(w.v, call.a.v)};
  call.projector.Project(call.a.normed.data(), call.batch.Rows(), projections);
}

void RotateQk(const LayerCall& call) {
  const int d = call.config.head_dim;
  const auto rotate = [&](AlignedBuffer<float>& buffer, int64_t row, int heads) {
    const int64_t position = call.a.positions[row];
    for (int h = 0; h < heads; ++h) {
      RotateHalf(buffer.data() + (row * heads + h) * d, call.rotary.Cosine(position), call.rotary.Sine(position), d);
    }
  };
  ForRows(call, [&](int64_t row) {
    rotate(call.a.q, row, call.config.heads);
    rotate(call.a.k, row, call.config.kv_heads);
  });
}

void Attend(const LayerCall& call) {
  const ModelConfig& c = call.config;
  const int64_t rows = call.batch.Rows();
  const auto output_heads = static_cast<int>(call.weights.heads.size());
  const float scale = 1.0f / std::sqrt(static_cast<float>(c.head_dim));
  FloatAttention({.q = DenseHeads<const float>(call.a.q.data(), rows, c.heads, c.head_dim),
                  .k = DenseHeads<const float>(call.a.k.data(), rows, c.kv_heads, c.head_dim),
                  .v = DenseHeads<const float>(call.a.v.data(), rows, c.kv_heads, c.head_dim),
                  .out = DenseHeads(call.a.attended.data(), rows, output_heads, c.heads / output_heads * c.head_dim),
                  .heads = call.weights.heads,
                  .lambda = {.data = &call.weights.lambda},
                  .scale = scale,
                  .sequences = call.batch.sequences,
                  .visitors = call.visitors,
                  .layer = call.layer});
}

void AddAttentionOutput(const LayerCall& call) {
  const Projection projection = To(call.weights.o, call.a.delta);
  call.projector.Project(call.a.attended.data(), call.batch.Rows(), {&projection, 1});
  AddRows(call);
}

void AddFeedForward(const LayerCall& call) {
  const LayerWeights& w = call.weights;
  const int64_t rows = call.batch.Rows(), I = call.config.ffn;
  const Projection widen[] = {To(w.gate, call.a.gate), To(w.up, call.a.up)};
  call.projector.Project(call.a.normed.data(), rows, widen);
  ForRows(call, [&](int64_t row) { SwiGlu(call.a.gate.data() + row * I, call.a.up.data() + row * I, I); });
  const Projection narrow = To(w.down, call.a.delta);
  call.projector.Project(call.a.gate.data(), rows, {&narrow, 1});
  AddRows(call);
}

void VisitRows(SiteVisitors visitors, Site site, int layer, const TokenBatch& batch, float* rows, int64_t columns) {
  if (!AnyWants(visitors, site, layer)) return;
  constexpr int64_t kRows = 64;
  std::vector<SiteBlock> blocks;
  const auto add = [&](const AttentionSequence& s, int slot, int64_t row, int64_t position, int64_t count) {
    for (int64_t done = 0; done < count; done += kRows) {
      blocks.push_back({.site = site,
                        .layer = layer,
                        .sequence = s.index,
                        .slot = slot,
                        .first_row = position + done,
                        .rows = std::min(kRows, count - done),
                        .first_columns = columns,
                        .values = rows + (row + done) * columns,
                        .stride = columns});
    }
  };
  for (size_t slot = 0; slot < batch.sequences.size(); ++slot) {
    const AttentionSequence& s = batch.sequences[slot];
    add(s, static_cast<int>(slot), s.first_row, 0, s.prefix);
    int64_t row = s.first_row + s.prefix;
    for (const int64_t tokens : s.branches) {
      add(s, static_cast<int>(slot), row, s.prefix, tokens);
      row += tokens;
    }
  }
  ParallelFor(blocks.size(), [&](size_t i, int thread) { Visit(visitors, blocks[i], thread); });
}

}  // namespace tare
