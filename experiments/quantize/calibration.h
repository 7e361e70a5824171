// SPDX-License-Identifier: Apache-2.0
// Calibration tokens on their way through a model, a layer at a time: all of them are taken through layer l, whose
// inputs are looked at, before layer l + 1 is. What is kept is one residual stream a token.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "experiments/model/model.h"
#include "experiments/tasks/sequences.h"
#include "quant/base/aligned.h"

namespace tare {

// Sum over all tokens of x x^T of a linear layer's input x, [in, in].
struct SecondMoments {
  int64_t in = 0;
  std::vector<float> values;
};

class Calibration {
 public:
  // Runs the model's embedding. The model must outlive this.
  Calibration(Model& model, const std::vector<ScoredSequence>& sequences);

  // Of the inputs of this layer, which must be the next one; by the first site with that input: q_proj.in (q, k, v),
  // o_proj.in, gate_proj.in (gate, up), down_proj.in.
  std::map<Site, SecondMoments> MomentsOf(int layer);
  // Takes all tokens through the layer, as its weights are now.
  void Advance(int layer);

  int64_t tokens() const { return tokens_; }

 private:
  struct Stream {
    TokenBatch batch;
    AlignedBuffer<float> x;  // [rows, E]
  };

  Model& model_;
  std::vector<Stream> streams_;
  int64_t tokens_ = 0;
  Projector projector_{Math::kF32};  // for products of activations
};

// The site that names a linear layer's input in MomentsOf.
Site InputOf(const LinearPlace& place);

}  // namespace tare
