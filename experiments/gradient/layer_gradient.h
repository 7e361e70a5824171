// SPDX-License-Identifier: Apache-2.0
// One decoder layer, whose weights may change, on whole sequences, and the gradient of a loss of its output by the
// weights of its linear layers. Forward runs the family's own steps (experiments/model/decoder.h) on weights in f32.
// Backward goes through them in reverse order, by hand: a norm, products, rotary positions, attention, a norm of heads
// and a gated unit are all that there is, which is less than a library of gradients would bring along.
//
//   x1 = x + s W_o N(attention(R W_q n, R W_k n, W_v n)),  n = norm(x)      N: the head norm of differential families
//   y  = x1 + s W_down (silu(W_gate m) * W_up m),          m = norm(x1)     s: the family's residual_scale
#pragma once

#include <array>
#include <map>
#include <string>

#include "experiments/model/decoder.h"
#include "experiments/model/rotary.h"
#include "quant/base/aligned.h"

namespace tare {

// Why there is no gradient of a family's layers; empty where there is one: families whose layers are llama's or
// diffllama's (LlamaForward, DifferentialForward).
std::string WithoutGradient(const ModelConfig& config);

class LayerGradient {
 public:
  // Takes copies of the layer's vectors and biases, and of its weights as f32. Throws Error where WithoutGradient says
  // why.
  LayerGradient(const ModelConfig& config, const LayerWeights& stored, int layer);
  LayerGradient(const LayerGradient&) = delete;

  int64_t channels() const { return config_.hidden; }
  // W [out, in] of a linear layer of the family's, row-major: to read and to change.
  float* Weight(Site weight) { return matrices_.at(weight).weight.data(); }
  // d loss / d W since ClearGradients.
  const float* Gradient(Site weight) const { return matrices_.at(weight).gradient.data(); }
  void ClearGradients();

  // The layer's output for the batch's rows x [R, E]; valid until the next call. Keeps for Backward what it needs: per
  // token some 8 E + 5 I + 5 A values (A attention's width, I the inner one).
  const float* Forward(const TokenBatch& batch, const float* x);
  // Adds to the gradients, from d loss / d output [R, E] of the last Forward.
  void Backward(const float* dy);

 private:
  struct Matrix {
    int64_t out = 0, in = 0;
    AlignedBuffer<float> weight, gradient, transposed;  // [out, in] [PaddedRows(out), in] [in, out]
  };
  // Of the last Forward, [R, ...].
  struct Kept {
    AlignedBuffer<float> x, normed, q, k, v, attended, heads, middle, middle_normed, gate, up, inner;
  };

  bool Differential() const { return weights_.lambda_init.has_value(); }
  LayerCall Call() { return {config_, weights_, *batch_, rotary_, projector_, {}, nullptr, layer_, a_}; }
  AttentionProblem Attention(float* out);
  // From d output of a product W input: W's gradient, and d input where asked for.
  void BackThrough(Site weight, const float* dy, const AlignedBuffer<float>& input, float* dx);
  void BackThroughFeedForward();
  void BackThroughAttention();
  void BackThroughHeadNorm(float* d_attended);
  void BackThroughRotary();

  const ModelConfig& config_;
  int layer_;
  LayerWeights weights_;
  std::map<Site, Matrix> matrices_;
  RotaryTable rotary_;
  Projector projector_{Math::kF32};
  Activations a_;
  const TokenBatch* batch_ = nullptr;
  Kept kept_;
  AlignedBuffer<float> d_stream_;                     // d loss / d the residual stream, where Backward has come
  AlignedBuffer<float> d_delta_, d_normed_, d_more_;  // [R, E]
  AlignedBuffer<float> d_wide_, d_gate_, d_up_;       // [R, I]
  AlignedBuffer<float> d_heads_, d_q_, d_k_, d_v_;    // [R, A] and heads
  AlignedBuffer<float> turned_out_, turned_in_, product_;
};

}  // namespace tare
