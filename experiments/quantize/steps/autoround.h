// SPDX-License-Identifier: Apache-2.0
// autoround[:STEPS[:SEED]] (AutoRound: Cheng et al., arXiv 2309.05516) learns the rounding of a layer's matrices
// together, offsets and ranges by signs of gradients (quant/algorithms/sign_round.h), by the layer's output error,
//
//   L = sum over tokens of |y - f(x)|^2     x: the layer's input in the model rounded so far
//                                         y: the state after the layer in the stored model, from its own inputs
//
// whose gradient goes back through the layer (below). STEPS: 1 to 10,000, else 200; SEED, else 0: the order of batches.
// Step t of n has size (1 - t / n) / n and the gradient of one batch, or of short ones with as many tokens as the
// longest; all take turns, in new orders. The result is kept if it beats round to nearest over all batches; AutoRound
// keeps the step with the least loss on its own batch, which compares different batches.
//
// Tried on the embedded differential model, int4+zero: steps of two batches of 2,048 tokens lose 1 % less; errors
// divided by a token's state, as the next norm does, the same within 1 %. Some 40 bytes per weight of a layer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <list>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "experiments/model/attention/float_attention.h"
#include "experiments/model/config/rotary.h"
#include "experiments/model/decoder.h"
#include "experiments/quantize/quantize.h"
#include "kernels/attention/heads.h"
#include "quant/algorithms/sign_round.h"
#include "quant/base/aligned.h"
#include "quant/format/quantized_matrix.h"

namespace tare {

// ---- The gradient of a layer
//
// One decoder layer, whose weights may change, on whole sequences, and a loss's gradient by its linear layers' weights.
// Forward runs the family's steps (experiments/model/decoder.h) on f32 weights. Backward reverses them by hand: a norm,
// products, rotary positions, attention, a norm of heads and a gated unit are less than a gradient library brings.
//
//   x1 = x + s W_o N(attention(R W_q n, R W_k n, W_v n)),  n = norm(x)
//   y  = x1 + s W_down (silu(W_gate m) * W_up m),          m = norm(x1)
//
// s is the family's residual_scale, R rotary positions, after norms of heads where the family has them; N the head norm
// of the first differential families, or a gate; a lambda per token is sigmoid(W_lambda n).

// Gradients (attention_gradient.cc) of the sum of `out` times problem.out, in the shapes of problem.q, k, v and lambda.
// No view may share another's memory, except `out` and problem.out, which is not read.
struct AttentionGradients {
  HeadsView<const float> out;  // d loss / d problem.out
  HeadsView<float> q, k, v;
  float* lambda = nullptr;  // [T][output heads], of heads with two maps; null: not asked for
};

// Output heads by groups that share no queries, keys or values: each group's gradients add up in their own places.
std::vector<std::vector<int>> GroupsThatShare(std::span<const OutputHead> heads);

// Fills the gradients of whole sequences without branches; other rows stay. Products and their sums are f32, sums of P
// * dP double. Sequences, and heads that share no queries, keys or values, run in parallel with equal results. Memory
// per thread: three times a head's keys of both maps, twice its values, three blocks of 64 queries by a sequence's
// keys.
void AttentionGradient(const AttentionProblem& problem, std::span<const AttentionSequence> sequences,
                       const AttentionGradients& gradients);

// Gradients of elementwise steps (kernels/elementwise/rows.h), each on one contiguous row of n values; sums in double.
//
// The gradient by x of y = x r weight, r = 1 / sqrt(mean(x^2) + eps), from dy:
// dx = r (weight dy) - x r^3 mean(x weight dy). weight null: ones. dx may be dy.
void RmsNormGradient(const float* x, const float* weight, float eps, const float* dy, size_t n, float* dx);

// The gradients of y = silu(gate) up by gate and up, from dy, into other memory: with s = sigmoid(gate),
//   dgate = dy up s (1 + gate (1 - s)),   dup = dy gate s
void SwiGluGradient(const float* gate, const float* up, const float* dy, size_t n, float* dgate, float* dup);

// Why there is no gradient of a family's layers: "a motif model, through whose layers ..."; empty where there is one:
// families whose layers are llama's, with what AddAttention (experiments/model/families/llama.h) may have.
std::string WithoutGradient(const ModelConfig& config);

class LayerGradient {
 public:
  // Takes copies of the layer's vectors and biases, and of its weights as f32. learned: the weights with a gradient.
  // Throws Error with the reason that WithoutGradient gives, if there is one.
  LayerGradient(const ModelConfig& config, const LayerWeights& stored, int layer, const std::set<Site>& learned);
  LayerGradient(const LayerGradient&) = delete;

  int64_t channels() const { return config_.hidden; }
  // W [out, in] of a linear layer of the family's, row-major: to read and to change.
  float* Weight(Site weight) { return linear_.at(weight).weight.data(); }
  // d loss / d W since ClearGradients, of a learned weight.
  const float* Gradient(Site weight) const { return linear_.at(weight).gradient.data(); }
  void ClearGradients();

  // The layer's output for the batch's rows x [R, E]; valid until the next call. Keeps for Backward what it needs: with
  // what Backward takes, per token some 10 E + 8 I + 13 A values (A attention's width, I the inner one).
  const float* Forward(const TokenBatch& batch, const float* x);
  // Adds to the gradients, from d loss / d output [R, E] of the last Forward.
  void Backward(const float* dy);

 private:
  // Values of the last Forward, [R, ...].
  struct Kept {
    AlignedBuffer<float> normed, q_before_norm, k_before_norm, q, k, v, attended, gates, heads;
    AlignedBuffer<float> middle, middle_normed, gate, up, inner;
  };

  // W [out, in], and its gradient if it is learned.
  struct Linear {
    int64_t out, in;
    AlignedBuffer<float> weight, gradient = {};
  };

  // The gradient of a product W input: dy is d output; dx becomes d input, or is null.
  struct Product {
    Site weight;
    const float* dy;
    const AlignedBuffer<float>& input;
    float* dx = nullptr;
  };

  bool Learns(Site weight) const { return linear_.contains(weight) && linear_.at(weight).gradient.size() > 0; }
  bool LearnsProjections() const {
    return Learns(Site::kQProjW) || Learns(Site::kKProjW) || Learns(Site::kVProjW) || Learns(Site::kLambdaProjW);
  }
  bool LearnsAttention() const { return Learns(Site::kOProjW) || LearnsProjections(); }
  bool HasHeadNorm() const { return weights_.lambda_init.has_value(); }
  int64_t Gates() const { return GateWidth(config_); }
  LayerCall Call() { return {config_, weights_, *batch_, rotary_, products_, {}, nullptr, layer_, a_}; }
  void ForwardAttention(const LayerCall& call);
  void BackThrough(std::initializer_list<Product> products);
  void BackThroughFeedForward();
  void BackThroughAttention();
  void BackThroughGates(float* d_attended);
  void BackThroughHeadNorm(float* d_attended);
  void BackThroughRotary();
  void BackThroughNorm(const std::vector<float>& weight, const AlignedBuffer<float>& before, int64_t width,
                       AlignedBuffer<float>& d);
  void BackThroughProjections();
  const float* WithGates();

  const ModelConfig& config_;
  int layer_;
  LayerWeights weights_;
  std::map<Site, Linear> linear_;
  RotaryTable rotary_;
  Projector projector_{Math::kF32};
  LinearProducts products_{projector_};
  Activations a_;
  const TokenBatch* batch_ = nullptr;
  Kept kept_;
  LambdaView lambda_;                                  // of it
  AlignedBuffer<float> d_stream_;                      // d loss / d the residual stream, where Backward has come
  AlignedBuffer<float> d_delta_, d_normed_, d_more_;   // [R, E]
  AlignedBuffer<float> d_wide_, d_gate_, d_up_;        // [R, I]
  AlignedBuffer<float> d_heads_, d_gates_, d_lambda_;  // [R, A] [R, H gates] [R, output heads]
  AlignedBuffer<float> d_q_, d_k_, d_v_;               // [R, H d] [R, G d] [R, G d]
  AlignedBuffer<float> d_q_and_gates_;                 // [R, H (d + gates)]
};

// ---- What is learned by it

struct LearnedMatrix {
  LinearLayer linear;
  const Rule* rule;
  QuantizedMatrixBuffer codes;
  std::vector<LearnedRows> rows;  // of codes
};

// The batches of each step, by their tokens.
std::vector<std::vector<size_t>> BatchesOfSteps(const std::vector<int64_t>& tokens, int steps, uint64_t seed);

// How many batches Learn takes through a layer.
int64_t LearningBatches(const std::vector<int64_t>& tokens, int steps, uint64_t seed);

// Throws Error if there is no gradient of the family's layers.
void CheckLearnedLayers(const ModelConfig& config, const Plan& plan = {});

class LearnedLayer {
 public:
  // The matrices that the plan, which must stay, rounds in this layer, to integer codes without scales per tensor.
  // Throws Error, starting with `where`, if rotated weights are not finite or there is no gradient.
  LearnedLayer(const ModelConfig& config, const LayerWeights& stored, int layer, const ResolvedPlan& plan,
               const std::string& where);

  struct Losses {
    double nearest, learned;  // mean square over tokens and channels
  };
  // body: called after every batch. Throws Error if the nearest codes' loss is not finite. Independent of threads.
  Losses Learn(const std::vector<LayerTokens>& batches, int steps, uint64_t seed, const std::function<void()>& body);

  const std::list<LearnedMatrix>& matrices() const { return matrices_; }

 private:
  void RoundInto(LearnedMatrix& matrix);
  void StepFrom(LearnedMatrix& matrix, float rate);
  double LossOf(const LayerTokens& tokens, bool gradients);
  double MeanLoss(const std::vector<LayerTokens>& batches, const std::function<void()>& body);
  void KeepAll();

  LayerGradient layer_;
  std::string where_;
  std::list<LearnedMatrix> matrices_;
  AlignedBuffer<float> d_output_;
};

}  // namespace tare
