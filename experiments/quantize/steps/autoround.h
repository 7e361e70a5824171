// SPDX-License-Identifier: Apache-2.0
// autoround[:STEPS[:SEED]] (AutoRound: Cheng et al., arXiv 2309.05516) learns the rounding of all matrices of a layer
// together, offsets and ranges by the signs of gradients as in quant/algorithms/sign_round.h, by the error of the
// layer's output,
//
//   L = sum over tokens of |y - f(x)|^2     x: the layer's input in the model rounded so far
//                                         y: the state after the layer in the stored model, from its own inputs
//
// whose gradient goes back through the layer (layer_gradient.h). STEPS is 1 to 10,000, else 200; SEED, else 0, sets the
// order of batches. Step t of n takes the gradient of one batch, or of several short ones with as many tokens as the
// longest, in a new order each time all have had their turn, and has the size (1 - t / n) / n. The result is kept if it
// loses less on all batches than rounding to nearest does; AutoRound keeps the step with the least loss on its own
// batch, which compares different batches.
//
// Tried on the embedded differential model, four bits and zero points: steps of two batches of 2,048 tokens lose 1 %
// less; errors divided by the size of a token's state, as the next norm divides them, lose the same within 1 %. Some 40
// bytes of memory for each weight of a layer.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <vector>

#include "experiments/quantize/quantize.h"
#include "experiments/quantize/steps/layer_gradient.h"
#include "quant/algorithms/sign_round.h"
#include "quant/format/quantized_matrix.h"

namespace tare {

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
  // body: called after every batch that was taken through the layer. Throws Error if the loss of the nearest codes is
  // not finite. The result does not depend on threads.
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
