// SPDX-License-Identifier: Apache-2.0
// Turns a model's ids into its first layer's input: rows of the embedding; in CLIP's towers also learned positions, and
// in the vision tower a matrix product over patches, the class token's own row, and, where there is one, a
// norm.
//
//   x_t = scale embedding[id_t] + position[t]   or   x_0 = class + position[0], x_t = W patch_t + b + position[t]
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "experiments/arrays/array_file.h"
#include "experiments/model/batch.h"
#include "experiments/model/linear/weights.h"
#include "kernels/linear/projector.h"
#include "quant/base/aligned.h"

namespace tare {

// Images for a vision tower: the array `images` [N,3,S,S] of a file, each cut into patches of p x p pixels, row by row.
// The rest of Tare sees patches as tokens: id 0 is the class token, image i has the ids 1 + i P .. i P + P with P
// patches, and a sequence is the class token and one image.
class Images {
 public:
  // Throws Error if the file has no `images` of the tower's size.
  Images(const std::filesystem::path& file, const ModelConfig& config);

  int64_t size() const { return count_; }
  int64_t Ids() const { return 1 + count_ * patches_; }  // ids are below this
  std::vector<int32_t> Sequence(int64_t image) const;    // ids of one image
  int64_t PatchValues() const { return 3 * patch_ * patch_; }
  // values [3][p][p] of the patch with this id, which is above 0. Throws Error for NaN and infinities.
  void ReadPatch(int64_t id, float* values) const;

 private:
  std::string where_;
  std::unique_ptr<ArrayFile> file_;
  ArrayInfo array_;
  ArrayValues pixels_;
  int64_t count_ = 0, side_ = 0, patch_ = 0, patches_ = 0;
};

class InputEmbedding {
 public:
  InputEmbedding(Weights& weights, const ModelConfig& config);

  // Sets the images that a vision tower's ids refer to.
  void Show(std::shared_ptr<const Images> images);
  const std::shared_ptr<const Images>& images() const { return images_; }
  // Throws Error for an invalid id.
  void CheckIds(const TokenBatch& batch) const;
  // x [PaddedRows(R), E]; positions [R].
  void Embed(const TokenBatch& batch, std::span<const int64_t> positions, Projector& projector, float* x);

 private:
  void EmbedPatches(const TokenBatch& batch, Projector& projector, float* x);

  const ModelConfig& config_;
  WeightMatrix rows_;                           // [V, E] as stored, for ids
  DenseMatrix patches_;                         // [E, 3 p p]
  std::vector<float> class_, bias_;             // [E], for patches
  WeightMatrix positions_;                      // [T, E], or empty
  std::vector<float> norm_weight_, norm_bias_;  // [E], or empty
  std::shared_ptr<const Images> images_;
  AlignedBuffer<float> pixels_;  // [PaddedRows(R), 3 p p]
};

}  // namespace tare
