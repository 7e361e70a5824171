// SPDX-License-Identifier: Apache-2.0
#include "experiments/gradient/layer_gradient.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "experiments/gradient/attention_gradient.h"
#include "experiments/gradient/rows_gradient.h"
#include "experiments/model/families/differential.h"
#include "experiments/model/families/llama.h"
#include "experiments/model/seen_projection.h"
#include "kernels/elementwise/rows.h"
#include "quant/base/error.h"
#include "quant/base/formatted.h"
#include "quant/base/parallel.h"

namespace tare {
namespace {

// [columns, rows] from [rows, columns], rows of `to` so far apart. A block at a time, in a place of its own: the rows
// that a block is written to lie in the same cache sets where `stride` is a power of two.
void Transpose(const float* from, int64_t rows, int64_t columns, int64_t stride, float* to) {
  constexpr int64_t kBlock = 32;
  ParallelFor(static_cast<size_t>((columns + kBlock - 1) / kBlock), [&](size_t index, int) {
    std::array<std::array<float, kBlock>, kBlock> block;
    const int64_t begin = static_cast<int64_t>(index) * kBlock, width = std::min(kBlock, columns - begin);
    for (int64_t first = 0; first < rows; first += kBlock) {
      const int64_t height = std::min(kBlock, rows - first);
      for (int64_t r = 0; r < height; ++r) {
        for (int64_t c = 0; c < width; ++c)
          block[static_cast<size_t>(c)][static_cast<size_t>(r)] = from[(first + r) * columns + begin + c];
      }
      for (int64_t c = 0; c < width; ++c)
        std::copy_n(block[static_cast<size_t>(c)].data(), height, to + (begin + c) * stride + first);
    }
  });
}

// A copy of the batch's rows, with zeros to the end of the last padded one.
void Keep(const AlignedBuffer<float>& from, int64_t rows, int64_t columns, AlignedBuffer<float>& to) {
  GrowRows(to, rows, columns);
  std::copy_n(from.data(), rows * columns, to.data());
  std::fill(to.data() + rows * columns, to.data() + PaddedRows(rows) * columns, 0.0f);
}

}  // namespace

std::string WithoutGradient(const ModelConfig& config) {
  const Family& family = FamilyOf(config);
  if (family.forward == LlamaForward || family.forward == DifferentialForward) return "";
  return Formatted("a {} model, whose layers are neither llama's nor diffllama's", config.family);
}

LayerGradient::LayerGradient(const ModelConfig& config, const LayerWeights& stored, int layer)
    : config_(config), layer_(layer), rotary_(config.Rotary(layer), config.head_dim) {
  if (const std::string why = WithoutGradient(config); !why.empty())
    Fail("gradients of a layer: got {}; try signround", why);
  weights_.vectors = stored.vectors;
  weights_.heads = stored.heads;
  weights_.mask = stored.mask;
  weights_.sinks = stored.sinks;
  weights_.lambda = stored.lambda;
  weights_.lambda_init = stored.lambda_init;
  for (const LinearLayer& linear : LinearLayersOf(config, layer)) {
    const LinearWeights& from = WeightsOf(stored, linear);
    Matrix& m = matrices_[linear.place->weight];
    m.out = from.weight.out, m.in = from.weight.in;
    m.weight.Reset(static_cast<size_t>(m.out * m.in));
    m.transposed.Reset(m.weight.size());
    m.gradient.Reset(static_cast<size_t>(PaddedRows(m.out) * m.in));
    ParallelFor(static_cast<size_t>(m.out), [&](size_t row, int) {
      RowAsFloat(from.weight, static_cast<int64_t>(row), m.weight.data() + static_cast<int64_t>(row) * m.in);
    });
    LinearWeights& to = WeightsOf(weights_, linear);
    to.weight = {.data = m.weight.data(), .type = WeightType::kF32, .out = m.out, .in = m.in};
    to.bias = from.bias;
  }
  ClearGradients();
}

void LayerGradient::ClearGradients() {
  for (auto& [site, m] : matrices_) std::fill_n(m.gradient.data(), m.gradient.size(), 0.0f);
}

const float* LayerGradient::Forward(const TokenBatch& batch, const float* x) {
  batch_ = &batch;
  const int64_t rows = batch.Rows(), E = config_.hidden, I = config_.ffn;
  a_.Prepare(batch, config_);
  rotary_.Reserve(*std::ranges::max_element(a_.positions) + 1);
  std::copy_n(x, rows * E, a_.x.data());
  const LayerCall call = Call();
  Keep(a_.x, rows, E, kept_.x);
  NormRows(call, weights_.vectors.at(kInputNorm));
  Keep(a_.normed, rows, E, kept_.normed);
  ProjectQkv(call);
  RotateQk(call);
  Keep(a_.q, rows, weights_.q.weight.out, kept_.q);
  Keep(a_.k, rows, weights_.k.weight.out, kept_.k);
  Keep(a_.v, rows, weights_.v.weight.out, kept_.v);
  Attend(call, LambdaOf(weights_));
  Keep(a_.attended, rows, weights_.o.weight.in, kept_.attended);
  if (Differential()) NormHeads(call);
  Keep(a_.attended, rows, weights_.o.weight.in, kept_.heads);
  ProjectOutput(call);
  AddDelta(call);
  Keep(a_.x, rows, E, kept_.middle);
  NormRows(call, weights_.vectors.at(kPostAttentionNorm));
  Keep(a_.normed, rows, E, kept_.middle_normed);
  for (AlignedBuffer<float>* buffer : {&kept_.gate, &kept_.up}) GrowRows(*buffer, rows, I);
  FeedForward(call, [&](float* gate, const float* up, size_t n) {
    const int64_t at = gate - a_.gate.data();
    std::copy_n(gate, n, kept_.gate.data() + at);
    std::copy_n(up, n, kept_.up.data() + at);
    SwiGlu(gate, up, n);
  });
  Keep(a_.gate, rows, I, kept_.inner);
  AddDelta(call);
  return a_.x.data();
}

void LayerGradient::Backward(const float* dy) {
  TARE_CHECK(batch_ != nullptr);
  const int64_t rows = batch_->Rows(), E = config_.hidden;
  for (auto& [site, m] : matrices_) Transpose(m.weight.data(), m.out, m.in, m.out, m.transposed.data());
  for (AlignedBuffer<float>* buffer : {&d_stream_, &d_delta_, &d_normed_, &d_more_}) GrowRows(*buffer, rows, E);
  std::copy_n(dy, rows * E, d_stream_.data());
  BackThroughFeedForward();
  BackThroughAttention();
}

// dW += dy^T input, and dx = dy W unless it is null.
void LayerGradient::BackThrough(Site weight, const float* dy, const AlignedBuffer<float>& input, float* dx) {
  Matrix& m = matrices_.at(weight);
  const int64_t rows = batch_->Rows(), padded = PaddedRows(rows);
  turned_out_.Reserve(static_cast<size_t>(PaddedRows(m.out) * padded));
  turned_in_.Reserve(static_cast<size_t>(m.in * padded));
  std::fill_n(turned_out_.data(), PaddedRows(m.out) * padded, 0.0f);
  std::fill_n(turned_in_.data(), m.in * padded, 0.0f);
  Transpose(dy, rows, m.out, padded, turned_out_.data());
  Transpose(input.data(), rows, m.in, padded, turned_in_.data());
  product_.Reserve(m.gradient.size());
  const Projection by_weight{.weight = {turned_in_.data(), WeightType::kF32, m.in, padded}, .y = product_.data()};
  projector_.Project(turned_out_.data(), m.out, {&by_weight, 1});
  ParallelFor(static_cast<size_t>(m.out), [&](size_t row, int) {
    const int64_t at = static_cast<int64_t>(row) * m.in;
    AddTo(m.gradient.data() + at, product_.data() + at, static_cast<size_t>(m.in));
  });
  if (dx == nullptr) return;
  const Projection by_input{.weight = {m.transposed.data(), WeightType::kF32, m.in, m.out}, .y = dx};
  projector_.Project(dy, rows, {&by_input, 1});
}

void LayerGradient::BackThroughFeedForward() {
  const int64_t rows = batch_->Rows(), E = config_.hidden, I = config_.ffn;
  for (AlignedBuffer<float>* buffer : {&d_wide_, &d_gate_, &d_up_}) GrowRows(*buffer, rows, I);
  const LayerCall call = Call();
  const float scale = config_.residual_scale;
  ForRows(call, [&](int64_t r) { ScaleInto(d_stream_.data() + r * E, scale, E, d_delta_.data() + r * E); });
  BackThrough(Site::kDownProjW, d_delta_.data(), kept_.inner, d_wide_.data());
  ForRows(call, [&](int64_t r) {
    SwiGluGradient(kept_.gate.data() + r * I, kept_.up.data() + r * I, d_wide_.data() + r * I, I,
                   d_gate_.data() + r * I, d_up_.data() + r * I);
  });
  BackThrough(Site::kGateProjW, d_gate_.data(), kept_.middle_normed, d_normed_.data());
  BackThrough(Site::kUpProjW, d_up_.data(), kept_.middle_normed, d_more_.data());
  const float* const weight = weights_.vectors.at(kPostAttentionNorm).data();
  ForRows(call, [&](int64_t r) {
    float* const d = d_normed_.data() + r * E;
    AddTo(d, d_more_.data() + r * E, E);
    RmsNormGradient(kept_.middle.data() + r * E, weight, config_.norm_eps, d, E, d);
    AddTo(d_stream_.data() + r * E, d, E);
  });
}

AttentionProblem LayerGradient::Attention(float* out) {
  const ModelConfig& c = config_;
  const int64_t rows = batch_->Rows();
  const std::span<const OutputHead> table = weights_.heads;
  return {.q = ReadOnly(DenseHeads(kept_.q.data(), rows, c.heads, c.head_dim)),
          .k = ReadOnly(DenseHeads(kept_.k.data(), rows, c.kv_heads, c.head_dim)),
          .v = ReadOnly(DenseHeads(kept_.v.data(), rows, c.kv_heads, c.head_dim)),
          .heads = table,
          .lambda = LambdaOf(weights_),
          .mask = weights_.mask,
          .scale = c.attention_scale.value_or(1.0f / std::sqrt(static_cast<float>(c.head_dim))),
          .sinks = weights_.sinks,
          .out = DenseHeads(out, rows, static_cast<int>(table.size()), table.front().VSlices() * c.head_dim)};
}

// d of the heads' norm, in place.
void LayerGradient::BackThroughHeadNorm(float* d_attended) {
  const auto heads = std::ssize(weights_.heads);
  const int64_t width = 2 * int64_t{config_.head_dim};
  const auto found = weights_.vectors.find(kHeadNorm);
  const float* const weight = found == weights_.vectors.end() ? nullptr : found->second.data();
  ForRows(Call(), [&](int64_t r) {
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t at = (r * heads + h) * width;
      float* const d = d_attended + at;
      ScaleInto(d, 1.0f - *weights_.lambda_init, width, d);
      RmsNormGradient(kept_.attended.data() + at, weight, HeadNormEps(config_), d, width, d);
    }
  });
}

void LayerGradient::BackThroughAttention() {
  const int64_t rows = batch_->Rows(), E = config_.hidden;
  const int d = config_.head_dim;
  GrowRows(d_heads_, rows, weights_.o.weight.in);
  GrowRows(d_q_, rows, weights_.q.weight.out);
  for (AlignedBuffer<float>* buffer : {&d_k_, &d_v_}) GrowRows(*buffer, rows, weights_.k.weight.out);
  const LayerCall call = Call();
  ForRows(call,
          [&](int64_t r) { ScaleInto(d_stream_.data() + r * E, config_.residual_scale, E, d_delta_.data() + r * E); });
  BackThrough(Site::kOProjW, d_delta_.data(), kept_.heads, d_heads_.data());
  if (Differential()) BackThroughHeadNorm(d_heads_.data());
  const AttentionProblem problem = Attention(d_heads_.data());
  AttentionGradient(problem, batch_->sequences,
                    {.out = ReadOnly(problem.out),
                     .q = DenseHeads(d_q_.data(), rows, config_.heads, d),
                     .k = DenseHeads(d_k_.data(), rows, config_.kv_heads, d),
                     .v = DenseHeads(d_v_.data(), rows, config_.kv_heads, d)});
  BackThroughRotary();
  BackThrough(Site::kQProjW, d_q_.data(), kept_.normed, nullptr);
  BackThrough(Site::kKProjW, d_k_.data(), kept_.normed, nullptr);
  BackThrough(Site::kVProjW, d_v_.data(), kept_.normed, nullptr);
}

// A rotation's transpose: that by the angles' opposites.
void LayerGradient::BackThroughRotary() {
  if (!config_.Rotates(layer_)) return;
  const int d = config_.head_dim, channels = rotary_.channels();
  const bool halves = config_.rotary.layout == RotaryConfig::Layout::kHalfSplit;
  ForRows(Call(), [&](int64_t row) {
    const int64_t position = a_.positions[row], tokens = a_.lengths[row];
    const float* const cosine = rotary_.Cosine(position, tokens);
    std::vector<float> sine(static_cast<size_t>(channels / 2));
    for (size_t i = 0; i < sine.size(); ++i) sine[i] = -rotary_.Sine(position, tokens)[i];
    const auto turn = [&](AlignedBuffer<float>& buffer, int heads) {
      for (int h = 0; h < heads; ++h)
        (halves ? RotateHalf : RotateInterleaved)(buffer.data() + (row * heads + h) * d, cosine, sine.data(), channels);
    };
    turn(d_q_, config_.heads);
    turn(d_k_, config_.kv_heads);
  });
}

}  // namespace tare
