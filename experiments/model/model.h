// SPDX-License-Identifier: Apache-2.0
// A model under test: a checkpoint folder of a known family, and its forward pass in f32 (or bf16 products). Buffers
// grow to the largest batch and are reused; weights stay mapped. Call it from one thread; each call uses all threads.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "experiments/model/batch.h"
#include "experiments/model/config.h"
#include "experiments/model/decoder.h"
#include "experiments/model/input_embedding.h"

namespace tare {

// What results call a checkpoint: the folder's own name. Throws Error where it is not UTF-8, as JSON must be.
std::string ModelName(const std::filesystem::path& folder);

class Model {
 public:
  // Throws Error where the folder is not a checkpoint of a known family, whole and finite.
  explicit Model(const std::filesystem::path& folder, Math math = Math::kF32, int64_t most_kept = Weights::kMostKept);

  // How later passes compute: linear layers with weights and (executed) inputs as the plan says, attention of the
  // layers that it executes on the integer kernels, everything else in floating point. The plan is resolved for this
  // model; what it simulates is for its visitor.
  void CarryOut(const ResolvedPlan& plan);

  // Replaces one weight by the values of these codes; for methods that quantize a layer at a time.
  void UseCodes(int layer, const LinearPlace& place, const QuantizedMatrix& codes);
  // The layer's weights as stored again, and the memory of the others given back.
  void DropCodes(int layer);

  // The images that ids of a vision tower are of from now on.
  void Show(std::shared_ptr<const Images> images) { embedding_.Show(std::move(images)); }
  const std::shared_ptr<const Images>& images() const { return embedding_.images(); }

  // The pass in pieces, for a caller that keeps the residual streams x [rows, E] of many batches and takes all of them
  // through a layer before the next.
  void EmbedInto(const TokenBatch& batch, float* x);
  void RunLayer(const TokenBatch& batch, int layer, float* x, SiteVisitors visitors = {});

  // Runs the batch up to the final norm. Visitors see every activation site of quant/plan/site.h but the caches (of a
  // layer with executed attention not what is inside it: attn_logits, probs, difference).
  void Forward(const TokenBatch& batch, SiteVisitors visitors = {});

  // Vocabulary logits, or a tower's projection, of rows of the last batch: body(i, logits[Outputs()], thread) for
  // rows[i], from several threads.
  void VocabularyLogits(std::span<const int64_t> rows,
                        const std::function<void(size_t i, const float* logits, int thread)>& body);

  const ModelConfig& config() const { return config_; }
  const std::vector<LayerWeights>& layers() const { return layers_; }
  const LinearWeights& head() const { return head_; }
  const Checkpoint& files() const { return weights_.files(); }
  const std::filesystem::path& folder() const { return folder_; }
  std::string Name() const { return ModelName(folder_); }
  Math math() const { return projector_.math(); }

 private:
  void Layer(const TokenBatch& batch, int layer, SiteVisitors visitors);
  void ProjectHead(int64_t rows);
  void ReserveRotary();

  std::filesystem::path folder_;
  ModelConfig config_;
  const Family& family_;
  Projector projector_;
  Weights weights_;
  InputEmbedding embedding_;
  LinearWeights head_;                               // [V, E]; the same tensor where tied
  std::vector<float> final_norm_, final_norm_bias_;  // the second empty where it has none
  std::vector<LayerWeights> layers_;
  std::vector<std::optional<ExecutedPlan>> attention_;  // a layer each, or empty
  std::string planned_;                                 // what CarryOut did last to linear layers
  RotaryTable rotary_, window_rotary_;                  // the second of layers with a window
  Activations activations_;
  AlignedBuffer<float> gathered_, logits_;  // [rows of a chunk, E] and [.., V]
};

}  // namespace tare
