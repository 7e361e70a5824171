// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/steps/autoround.h"

#include <algorithm>
#include <cmath>

#include "experiments/model/activation.h"
#include "experiments/model/families/llama.h"
#include "kernels/elementwise/rows.h"
#include "kernels/linear/projector.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"

namespace tare {
namespace {

// A copy of the batch's rows.
void Keep(const AlignedBuffer<float>& from, int64_t rows, int64_t columns, AlignedBuffer<float>& to) {
  to.Reserve(static_cast<size_t>(rows * columns));
  ParallelFor(static_cast<size_t>(rows), [&](size_t row, int) {
    const int64_t at = static_cast<int64_t>(row) * columns;
    std::copy_n(from.data() + at, columns, to.data() + at);
  });
}

}  // namespace

void RmsNormGradient(const float* x, const float* weight, float eps, const float* dy, size_t n, float* dx) {
  double squares = 0, along = 0;
  for (size_t i = 0; i < n; ++i) {
    const double by = weight == nullptr ? double{dy[i]} : double{weight[i]} * double{dy[i]};
    squares += double{x[i]} * double{x[i]};
    along += double{x[i]} * by;
  }
  const auto count = static_cast<double>(n);
  const double r = 1 / std::sqrt(squares / count + double{eps});
  const auto of_dy = static_cast<float>(r), of_x = static_cast<float>(r * r * r * along / count);
  for (size_t i = 0; i < n; ++i) {
    const float by = weight == nullptr ? dy[i] : weight[i] * dy[i];
    dx[i] = of_dy * by - of_x * x[i];
  }
}

void SwiGluGradient(const float* gate, const float* up, const float* dy, size_t n, float* dgate, float* dup) {
  for (size_t i = 0; i < n; ++i) {
    const float s = 1 / (1 + std::exp(-gate[i]));
    dgate[i] = dy[i] * up[i] * s * (1 + gate[i] * (1 - s));
    dup[i] = dy[i] * gate[i] * s;
  }
}

std::string WithoutGradient(const ModelConfig& config) {
  const Family& family = FamilyOf(config);
  const bool other = family.forward == LlamaForward && config.activation->gated != SwiGlu;
  if (config.row_weights != RowWeights::kSoftmax) return "softpick, through which no gradient goes back";
  if (family.forward == LlamaForward && !other) return "";
  return Formatted("{} model{}, through whose layers no gradient goes back", WithArticle(family.name),
                   other ? Formatted(" with {}", config.activation->Name()) : "");
}

LayerGradient::LayerGradient(const ModelConfig& config, const LayerWeights& stored, int layer,
                             const std::set<Site>& learned)
    : config_(config), layer_(layer), rotary_(config.Rotary(layer), config.head_dim) {
  if (const std::string why = WithoutGradient(config); !why.empty())
    Fail("gradient of a layer: got {}; try signround", why);
  TARE_CHECK(stored.lambda_init.has_value() + (GateWidth(config) > 0) < 2);  // kept.attended is before either
  weights_.vectors = stored.vectors;
  weights_.heads = stored.heads;
  weights_.mask = stored.mask;
  weights_.sinks = stored.sinks;
  weights_.lambda = stored.lambda;
  weights_.lambda_init = stored.lambda_init;
  weights_.head_norm = stored.head_norm;
  for (const LinearLayer& linear : LinearLayersOf(config, layer)) {
    const LinearWeights& from = WeightsOf(stored, linear);
    const WeightMatrix& w = from.stored();
    Linear& own = linear_[linear.place->weight];
    own.out = w.out, own.in = w.in;
    own.weight.Reset(static_cast<size_t>(w.out * w.in));
    RowsAsFloat(w, 0, w.out, own.weight.data(), "weights");
    if (learned.contains(linear.place->weight)) own.gradient.Reset(own.weight.size());
    const DenseMatrix values{.data = own.weight.data(), .type = WeightType::kF32, .out = w.out, .in = w.in};
    WeightsOf(weights_, linear) = LinearWeights(linear.Tensor(config), values, from.bias());
  }
  ClearGradients();
}

void LayerGradient::ClearGradients() {
  for (auto& [site, linear] : linear_) std::fill_n(linear.gradient.data(), linear.gradient.size(), 0.0f);
}

const float* LayerGradient::Forward(const TokenBatch& batch, const float* x) {
  batch_ = &batch;
  const int64_t rows = batch.Rows(), E = config_.hidden, I = config_.ffn;
  a_.Prepare(batch, config_);
  rotary_.Reserve(*std::ranges::max_element(a_.positions) + 1);
  std::copy_n(x, rows * E, a_.x.data());
  const LayerCall call = Call();
  NormRows(call, weights_.vectors.at(kInputNorm));
  Keep(a_.normed, rows, E, kept_.normed);
  ForwardAttention(call);
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

void LayerGradient::ForwardAttention(const LayerCall& call) {
  const int64_t rows = batch_->Rows(), q = int64_t{config_.heads} * config_.head_dim, kv = weights_.k.stored().out,
                attended = weights_.o.stored().in;
  ProjectQkv(call);
  if (config_.qk_norm) {
    Keep(a_.q, rows, q, kept_.q_before_norm);
    Keep(a_.k, rows, kv, kept_.k_before_norm);
    NormQk(call, weights_.vectors.at(kQNorm), weights_.vectors.at(kKNorm));
  }
  RotateQk(call);
  Keep(a_.q, rows, q, kept_.q);
  Keep(a_.k, rows, kv, kept_.k);
  Keep(a_.v, rows, kv, kept_.v);
  lambda_ = ProjectsLambda(config_) ? ProjectLambda(call) : LambdaOf(weights_);
  Attend(call, lambda_);
  Keep(a_.attended, rows, attended, kept_.attended);
  if (HasHeadNorm()) NormHeads(call);
  if (Gates() > 0) {
    GateHeads(call);
    Keep(a_.attn_gate, rows, config_.heads * Gates(), kept_.gates);
  }
  Keep(a_.attended, rows, attended, kept_.heads);
}

void LayerGradient::Backward(const float* dy) {
  TARE_CHECK(batch_ != nullptr);
  const int64_t rows = batch_->Rows(), E = config_.hidden;
  for (AlignedBuffer<float>* buffer : {&d_stream_, &d_delta_, &d_normed_, &d_more_}) GrowRows(*buffer, rows, E);
  std::copy_n(dy, rows * E, d_stream_.data());
  BackThroughFeedForward();
  if (LearnsAttention()) BackThroughAttention();
}

void LayerGradient::BackThrough(std::initializer_list<Product> products) {
  std::vector<ProductGradient> asked;
  for (const Product& product : products) {
    Linear& own = linear_.at(product.weight);
    asked.push_back({.dy = product.dy,
                     .x = product.input.data(),
                     .weight = own.weight.data(),
                     .out = own.out,
                     .in = own.in,
                     .d_weight = Learns(product.weight) ? own.gradient.data() : nullptr,
                     .dx = product.dx});
  }
  AddProductGradients(asked, batch_->Rows());
}

void LayerGradient::BackThroughFeedForward() {
  const int64_t rows = batch_->Rows(), E = config_.hidden, I = config_.ffn;
  for (AlignedBuffer<float>* buffer : {&d_wide_, &d_gate_, &d_up_}) GrowRows(*buffer, rows, I);
  const LayerCall call = Call();
  const float scale = config_.residual_scale;
  ForRows(call, [&](int64_t r) { ScaleInto(d_stream_.data() + r * E, scale, E, d_delta_.data() + r * E); });
  const bool before = LearnsAttention(), gates = Learns(Site::kGateProjW) || Learns(Site::kUpProjW);
  BackThrough({{Site::kDownProjW, d_delta_.data(), kept_.inner, before || gates ? d_wide_.data() : nullptr}});
  if (!before && !gates) return;
  ForRows(call, [&](int64_t r) {
    SwiGluGradient(kept_.gate.data() + r * I, kept_.up.data() + r * I, d_wide_.data() + r * I, I,
                   d_gate_.data() + r * I, d_up_.data() + r * I);
  });
  BackThrough({{Site::kGateProjW, d_gate_.data(), kept_.middle_normed, before ? d_normed_.data() : nullptr},
               {Site::kUpProjW, d_up_.data(), kept_.middle_normed, before ? d_more_.data() : nullptr}});
  if (!before) return;
  const float* const weight = weights_.vectors.at(kPostAttentionNorm).data();
  ForRows(call, [&](int64_t r) {
    float* const d = d_normed_.data() + r * E;
    AddTo(d, d_more_.data() + r * E, E);
    RmsNormGradient(kept_.middle.data() + r * E, weight, config_.norm_eps, d, E, d);
    AddTo(d_stream_.data() + r * E, d, E);
  });
}

// d of the heads' norm, in place.
void LayerGradient::BackThroughHeadNorm(float* d_attended) {
  const auto heads = std::ssize(weights_.heads);
  const int64_t width = 2 * int64_t{config_.head_dim};
  const float* const weight = weights_.head_norm.empty() ? nullptr : weights_.head_norm.data();
  ForRows(Call(), [&](int64_t r) {
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t at = (r * heads + h) * width;
      float* const d = d_attended + at;
      ScaleInto(d, 1.0f - *weights_.lambda_init, width, d);
      RmsNormGradient(kept_.attended.data() + at, weight, HeadNormEps(config_), d, width, d);
    }
  });
}

// d of the gates' product, in place, and of the gates before the sigmoid.
void LayerGradient::BackThroughGates(float* d_attended) {
  const int64_t d = config_.head_dim, gates = Gates(), heads = config_.heads;
  GrowRows(d_gates_, batch_->Rows(), heads * gates);
  ForRows(Call(), [&](int64_t r) {
    for (int64_t at = r * heads; at < (r + 1) * heads; ++at) {
      const float* const gate = kept_.gates.data() + at * gates;
      float* const d_gate = d_gates_.data() + at * gates;
      std::fill_n(d_gate, gates, 0.0f);
      for (int64_t c = 0; c < d; ++c) {
        const int64_t g = gates == 1 ? 0 : c;
        d_gate[g] += d_attended[at * d + c] * kept_.attended[at * d + c];
        d_attended[at * d + c] *= gate[g];
      }
      for (int64_t g = 0; g < gates; ++g) d_gate[g] *= gate[g] * (1 - gate[g]);
    }
  });
}

void LayerGradient::BackThroughAttention() {
  const int64_t rows = batch_->Rows(), E = config_.hidden, heads = std::ssize(weights_.heads);
  const int d = config_.head_dim;
  GrowRows(d_heads_, rows, weights_.o.stored().in);
  GrowRows(d_q_, rows, int64_t{config_.heads} * d);
  for (AlignedBuffer<float>* buffer : {&d_k_, &d_v_}) GrowRows(*buffer, rows, weights_.k.stored().out);
  if (ProjectsLambda(config_)) GrowRows(d_lambda_, rows, heads);
  const LayerCall call = Call();
  ForRows(call,
          [&](int64_t r) { ScaleInto(d_stream_.data() + r * E, config_.residual_scale, E, d_delta_.data() + r * E); });
  BackThrough({{Site::kOProjW, d_delta_.data(), kept_.heads, LearnsProjections() ? d_heads_.data() : nullptr}});
  if (!LearnsProjections()) return;
  if (Gates() > 0) BackThroughGates(d_heads_.data());
  if (HasHeadNorm()) BackThroughHeadNorm(d_heads_.data());
  const AttentionProblem problem =
      AttentionOf(call, kept_.q.data(), kept_.k.data(), kept_.v.data(), lambda_, d_heads_.data());
  AttentionGradient(problem, batch_->sequences,
                    {.out = ReadOnly(problem.out),
                     .q = DenseHeads(d_q_.data(), rows, config_.heads, d),
                     .k = DenseHeads(d_k_.data(), rows, config_.kv_heads, d),
                     .v = DenseHeads(d_v_.data(), rows, config_.kv_heads, d),
                     .lambda = ProjectsLambda(config_) ? d_lambda_.data() : nullptr});
  BackThroughRotary();
  if (config_.qk_norm) {
    BackThroughNorm(weights_.vectors.at(kQNorm), kept_.q_before_norm, int64_t{config_.heads} * d, d_q_);
    BackThroughNorm(weights_.vectors.at(kKNorm), kept_.k_before_norm, weights_.k.stored().out, d_k_);
  }
  BackThroughProjections();
}

// d of the norms of each head's queries or keys, in place.
void LayerGradient::BackThroughNorm(const std::vector<float>& weight, const AlignedBuffer<float>& before, int64_t width,
                                    AlignedBuffer<float>& d) {
  const auto n = std::ssize(weight);
  ForRows(Call(), [&](int64_t r) {
    for (int64_t at = r * width; at < (r + 1) * width; at += n)
      RmsNormGradient(before.data() + at, weight.data(), config_.norm_eps, d.data() + at, n, d.data() + at);
  });
}

void LayerGradient::BackThroughProjections() {
  const int64_t rows = batch_->Rows(), heads = std::ssize(weights_.heads);
  BackThrough({{Site::kQProjW, Gates() > 0 ? WithGates() : d_q_.data(), kept_.normed},
               {Site::kKProjW, d_k_.data(), kept_.normed},
               {Site::kVProjW, d_v_.data(), kept_.normed}});
  if (!ProjectsLambda(config_)) return;
  for (int64_t i = 0; i < rows * heads; ++i) d_lambda_[i] *= lambda_.data[i] * (1 - lambda_.data[i]);
  BackThrough({{Site::kLambdaProjW, d_lambda_.data(), kept_.normed}});
}

// d of q_proj's rows, a group's queries before its gates.
const float* LayerGradient::WithGates() {
  const int64_t rows = batch_->Rows(), d = config_.head_dim, gates = Gates(), heads = config_.heads,
                group = heads / config_.kv_heads;
  GrowRows(d_q_and_gates_, rows, heads * (d + gates));
  ForRows(Call(), [&](int64_t r) {
    for (int64_t at = r * heads; at < (r + 1) * heads; ++at) {
      const int64_t in_group = at % heads % group;
      float* const to = d_q_and_gates_.data() + (at - in_group) * (d + gates);
      std::copy_n(d_q_.data() + at * d, d, to + in_group * d);
      std::copy_n(d_gates_.data() + at * gates, gates, to + group * d + in_group * gates);
    }
  });
  return d_q_and_gates_.data();
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
