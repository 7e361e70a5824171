// SPDX-License-Identifier: Apache-2.0
// AutoRound (Cheng et al., arXiv 2309.05516): learns the rounding of all matrices of a layer together, offsets and
// ranges by the signs of gradients as in quant/algorithms/learned_rows.h, by the error of the layer's output,
//
//   L = sum over tokens of |y - f(x)|^2     x: the layer's input in the model rounded so far, y: its output as stored
//
// whose gradient goes back through the layer (experiments/gradient/layer_gradient.h). Step t of n takes the gradient of
// one batch, in a new order each time all have had their turn, and has the size (1 - t / n) / n. The result is kept if
// it loses less on all batches than rounding to nearest does; AutoRound keeps the step whose own batches lost least, in
// which batches differ, too.
//
// Measured on the embedded differential model, int4+zero in groups of 64 and 16, batches of 2,048 tokens, 200 steps:
// two batches per step lose 1 % less and take twice as long; errors divided by the size of a token's state, as the next
// norm divides them, lose the same within 1 %. Memory: 40 bytes for each weight of a layer.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <vector>

#include "experiments/gradient/layer_gradient.h"
#include "experiments/plan/resolved_plan.h"
#include "quant/algorithms/learned_rows.h"
#include "quant/format/quantized_matrix.h"

namespace tare {

// One batch at a layer, each [R, E]. Views.
struct LayerTokens {
  const TokenBatch* batch;
  const float* input;
  const float* target;
};

struct LearnedMatrix {
  LinearLayer linear;
  const Rule* rule;
  QuantizedMatrixBuffer codes;
  std::vector<LearnedRows> rows;  // of codes
};

class LearnedLayer {
 public:
  // Of what the plan, which must stay, rounds in this layer: integer codes, no scales per tensor. Throws Error where
  // there is no gradient.
  LearnedLayer(const ModelConfig& config, const LayerWeights& stored, int layer, const ResolvedPlan& plan);

  struct Losses {
    double nearest, learned;  // mean square over tokens and channels
  };
  // body: after every batch that was taken through the layer; BatchesOf is how many there will be. Throws Error if the
  // loss is not finite. The result does not depend on threads.
  Losses Learn(const std::vector<LayerTokens>& batches, int steps, uint64_t seed, const std::function<void()>& body);
  static int64_t BatchesOf(size_t batches, int steps);

  const std::list<LearnedMatrix>& matrices() const { return matrices_; }

 private:
  void RoundInto(LearnedMatrix& matrix);
  void StepFrom(LearnedMatrix& matrix, float rate);
  double LossOf(const LayerTokens& tokens, bool gradients);
  double MeanLoss(const std::vector<LayerTokens>& batches, const std::function<void()>& body);
  void KeepAll();

  LayerGradient layer_;
  std::list<LearnedMatrix> matrices_;
  AlignedBuffer<float> d_output_;
};

}  // namespace tare
