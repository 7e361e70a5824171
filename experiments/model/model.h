// SPDX-License-Identifier: Apache-2.0
// A model under test: a checkpoint of a known family, and its forward pass in f32 (or with bf16 products). Buffers grow
// to the largest batch and are reused; weights stay mapped. Call it from one thread; each call uses all threads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "experiments/arrays/array_file.h"
#include "experiments/arrays/image_folder.h"
#include "experiments/model/batch.h"
#include "experiments/model/config/config.h"
#include "experiments/model/layer.h"
#include "experiments/model/linear/weights.h"
#include "kernels/linear/projector.h"
#include "quant/base/aligned.h"
#include "quant/base/memory.h"

namespace tare {

// ---- The first layer's input (input_embedding.cc)

// The array `images` [N,3,S,S] of a file, or a folder's images (image_folder.h), decoded each time they are read, in
// patches of p x p pixels, row by row. The rest of Tare sees patches as tokens: ids below F are class token or
// registers, image i has F + i P .. F + i P + P - 1, a sequence is the F tokens and one image. With pixels' mean and
// deviation, 8-bit pixels are (x / 255 - mean) / deviation.
class Images {
 public:
  // Throws Error if the file has no `images` of the tower's size, or the folder other classes than the model.
  Images(const std::filesystem::path& input, const ModelConfig& config);

  int64_t size() const { return count_; }
  int64_t Ids() const { return before_ + count_ * patches_; }  // ids are below this
  std::vector<int32_t> Sequence(int64_t image) const;          // ids of one image
  int64_t PatchValues() const { return 3 * patch_ * patch_; }
  // values [ids][3][p][p]: patches, zeros for ids below F. Throws Error for NaN, infinities and what cannot be decoded.
  void ReadPatches(std::span<const int32_t> ids, float* values) const;

 private:
  // pixels: with the image's first one at `first`.
  void ReadPatch(int64_t id, const ArrayValues& pixels, int64_t first, float* values) const;

  std::string where_;
  std::vector<ImageFile> folder_;
  std::unique_ptr<ArrayFile> file_;    // null: a folder
  std::optional<ArrayValues> pixels_;  // of the file
  int64_t count_ = 0, side_ = 0, shorter_ = 0, patch_ = 0, patches_ = 0, before_ = 0;
  std::array<float, 3> mean_, deviation_;  // of 8-bit pixels over 255; deviation 0: they are as stored
};

// Turns a model's ids into its first layer's input: rows of the embedding; in CLIP's towers with learned positions, and
// for images a matrix product over patches, rows of class token or registers (without positions), and a norm.
//
//   x_t = scale embedding[id_t] + position[t]   or   x_0 = class + position[0], x_t = W patch_t + b + position[t]
class InputEmbedding {
 public:
  InputEmbedding(Weights& weights, const ModelConfig& config);

  // Sets the images that ids refer to.
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
  std::vector<float> before_, bias_;            // [F, E] [E], for patches
  std::vector<float> positions_;                // [T, E] or [P, E], or empty
  std::vector<float> norm_weight_, norm_bias_;  // [E], or empty
  std::shared_ptr<const Images> images_;
  AlignedBuffer<float> pixels_;  // [PaddedRows(R), 3 p p]
};

// ---- The model

// A checkpoint's name in results: the name of its folder. Throws Error if it is not UTF-8, as JSON must be.
std::string ModelName(const std::filesystem::path& folder);

// The state that a layer hands to the next ones for one batch of R rows.
struct Stream {
  Stream() = default;
  explicit Stream(std::pmr::memory_resource& memory_of) : x(memory_of), k(memory_of), v(memory_of), memory(memory_of) {}
  Stream(const Stream& other);
  Stream(Stream&&) = default;
  Stream& operator=(Stream&&) = default;

  AlignedBuffer<float> x;       // [R, E] the residual stream; or n of them
  AlignedBuffer<float> k, v;    // keys and values that later layers share, where the family has such layers
  AlignedBuffer<float> memory;  // of a scan, likewise
};

class KeptStreams;

// How much of its weights a model keeps in memory in a form of its own. The results are the same.
struct WeightMemory {
  int64_t converted = Weights::kMostKept;  // values at most, of codes and types that products do not read
  double rounded = MachineMemory() / 2;    // bytes of values at most that a plan rounds; else rounded for each product
};

// How a model computes: a value, so that nothing of the one before stays.
struct Execution {
  // Resolved for the model. Linear layers have weights and (executed) inputs as it says, executed layers attend on the
  // integer kernels, everything else is in floating point; its visitor does what it simulates.
  const ResolvedPlan& plan;
  // By layer, the executed attention for prompts of sequences with caches; empty: nothing.
  std::vector<std::optional<ExecutedPlan>> prompts = {};
  // Forward starts from these streams and keeps its own there, unless a batch has caches or images, or layers hand on
  // more than the stream; null: never. Visitors, those of the first run (KeptStreams::Begin), see only layers that run.
  KeptStreams* streams = nullptr;
};

class Model {
 public:
  // Throws Error unless it is a checkpoint of a known family, whole and finite.
  explicit Model(const std::filesystem::path& folder, Math math = Math::kF32, const WeightMemory& memory = {})
      : Model(folder, WeightReading::kWhole, math, memory) {}
  // Whole; a model of kShapes is only looked at. layers: of its first ones alone, as if it had no others; 0: of all.
  Model(const std::filesystem::path& folder, WeightReading reading, Math math = Math::kF32,
        const WeightMemory& memory = {}, int layers = 0);

  // Sets how later passes compute. It is no part of making a model, which is read once and runs many plans. Rounding or
  // packing all weights may take minutes: progress, which may be empty, gets layers done of all.
  using PlanProgress = std::function<void(int64_t done, int64_t total, const char* unit)>;
  void CarryOut(const Execution& execution, const PlanProgress& progress = {});
  bool ExecutesPrompts() const { return !prompts_.empty(); }

  // Replaces a weight by these codes' values, layer by layer. Experts' are made at use: keep codes until DropCodes.
  void UseCodes(const LinearLayer& linear, const QuantizedMatrix& codes);
  // Restores the layer's stored weights and frees the replacements.
  void DropCodes(int layer);

  // Sets the images that ids refer to.
  void Show(std::shared_ptr<const Images> images) { embedding_.Show(std::move(images)); }
  const std::shared_ptr<const Images>& images() const { return embedding_.images(); }

  // The pass in pieces, for a caller that takes the kept streams of many batches through one layer before the next.
  void EmbedInto(const TokenBatch& batch, Stream& stream);
  // part: the steps that run; null: all.
  void RunLayer(const TokenBatch& batch, int layer, Stream& stream, SiteVisitors visitors = {},
                LayerPart* part = nullptr);

  // The experts that each row chose in the last layer that ran, the one with the largest router logit first.
  std::span<const int32_t> ChosenExperts() const { return activations_.experts.chosen; }

  // Runs the batch up to the final norm. A model that pools has, in place of a sequence's last token, the norm of its
  // patches' mean. Visitors see activations, except caches and executed attention's attn_logits, probs and difference.
  void Forward(const TokenBatch& batch, SiteVisitors visitors = {});

  // Logits, or a tower's projection, of the last batch's rows: body(i, logits[Outputs()], thread), on several threads.
  void VocabularyLogits(std::span<const int64_t> rows,
                        const std::function<void(size_t i, const float* logits, int thread)>& body);
  // The input of the logits: the hidden state [E] after the final norm, of a row of the last batch, until the next.
  const float* FinalState(int64_t row) const { return activations_.normed.data() + row * config_.hidden; }
  // The logits of such states of this model, the same bits as those of as many rows.
  void LogitsOf(std::span<const float* const> states,
                const std::function<void(size_t i, const float* logits, int thread)>& body);

  const ModelConfig& config() const { return config_; }
  const std::vector<LayerWeights>& layers() const { return layers_; }
  const LinearWeights& head() const { return head_; }
  const Checkpoint& files() const { return weights_.files(); }
  const std::filesystem::path& folder() const { return folder_; }
  std::string Name() const { return ModelName(folder_); }
  Math math() const { return projector_.math(); }

 private:
  // Gives back the file's memory under the layer's weights that are said to be released: it is read again where needed.
  void ReleaseWeights(int layer, const std::function<bool(const LinearWeights&)>& released) const;
  // The weights that stay ready under a plan: of a model's experts, and of its other layers.
  struct KeptOfLayers {
    Kept experts, others;
  };
  KeptOfLayers KeptUnder(const ResolvedPlan& plan) const;
  void FollowPlan(const ResolvedPlan& plan, const PlanProgress& progress);
  void Embed(const TokenBatch& batch, SiteVisitors visitors = {});
  void Layer(const TokenBatch& batch, int layer, SiteVisitors visitors, LayerPart* part = nullptr);
  void SwapShared(Stream& stream);
  void PoolPatches(const TokenBatch& batch);
  void MeanOfStreams(int64_t rows);
  // For a pass of the batch.
  void Prepare(const TokenBatch& batch, SiteVisitors visitors);
  KeptStreams* SharedBy(const TokenBatch& batch) const;

  std::filesystem::path folder_;
  ModelConfig config_;
  const Family& family_;
  WeightMemory memory_;
  Projector projector_;
  LinearProducts products_{projector_};
  Weights weights_;
  InputEmbedding embedding_;
  LinearWeights head_;                               // [V, E]; the embedding's tensor if tied
  std::vector<float> final_norm_, final_norm_bias_;  // the bias is empty if there is none
  std::vector<LayerWeights> layers_;
  std::vector<std::optional<ExecutedPlan>> attention_;  // one per layer, or empty
  std::vector<std::optional<ExecutedPlan>> prompts_;    // as above, for batches with caches
  KeptStreams* streams_ = nullptr;
  struct Followed {
    Carrying carrying;
    Plan plan;
  };
  std::optional<Followed> followed_;    // by linear layers; empty: no plan, or one whose clips may change
  RotaryTable rotary_, window_rotary_;  // the second for layers with a window
  Activations activations_;
  AlignedBuffer<float> gathered_, logits_;  // [rows of a chunk, E] and [.., V]
};

}  // namespace tare
