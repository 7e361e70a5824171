// SPDX-License-Identifier: Apache-2.0
// Turns a model's ids into its first layer's input: rows of the embedding; in CLIP's towers also learned positions, and
// in the vision tower a matrix product over patches (images.h), the class token's own row, and, where there is one, a
// norm.
//
//   x_t = scale embedding[id_t] + position[t]   or   x_0 = class + position[0], x_t = W patch_t + b + position[t]
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "experiments/model/batch.h"
#include "experiments/model/images.h"
#include "experiments/model/weights.h"
#include "kernels/linear/projector.h"
#include "quant/base/aligned.h"

namespace tare {

struct Family;

class InputEmbedding {
 public:
  InputEmbedding(Weights& weights, const ModelConfig& config);

  // The images that ids of a vision tower are of from now on.
  void Show(std::shared_ptr<const Images> images);
  const std::shared_ptr<const Images>& images() const { return images_; }
  // Throws Error for an invalid id.
  void CheckIds(const TokenBatch& batch) const;
  // x [PaddedRows(R), E]; positions [R].
  void Embed(const TokenBatch& batch, std::span<const int64_t> positions, Projector& projector, float* x);

 private:
  void EmbedPatches(const TokenBatch& batch, Projector& projector, float* x);

  const ModelConfig& config_;
  WeightMatrix rows_;                           // [V, E] as stored, of ids
  WeightMatrix patches_;                        // [E, 3 p p]
  std::vector<float> class_, bias_;             // [E], of patches
  WeightMatrix positions_;                      // [T, E], or empty
  std::vector<float> norm_weight_, norm_bias_;  // [E], or empty
  std::shared_ptr<const Images> images_;
  AlignedBuffer<float> pixels_;  // [PaddedRows(R), 3 p p]
};

}  // namespace tare
