// SPDX-License-Identifier: Apache-2.0
// Runs calibration tokens through a model by layer: all pass layer l, where inputs are observed, before layer l + 1,
// and every step once, except for inputs of down_proj. Keeps per token the residual stream and at most one input, of
// o_proj's or gate_proj's width, in memory that may be a disk's (mapped_file.h).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory_resource>
#include <optional>
#include <span>
#include <vector>

#include "experiments/model/model.h"
#include "experiments/passes/sequences.h"
#include "quant/base/aligned.h"

namespace tare {

// Sums over all tokens for a linear layer's input x; for an expert's over those that reach it.
struct SecondMoments {
  int64_t in = 0, tokens = 0;
  std::vector<float> values;  // of x x^T [in, in]
  std::vector<float> cross;   // of (exact x - x) x^T [in, in]; empty without an exact pass
};

// Linear inputs in a layer's order, by their first site: q_proj.in (for q, k, v, lambda), o_proj.in, gate_proj.in (for
// gate, up), down_proj.in. A Mamba, a memory unit and experts have their own; two paired Mambas read one.
inline constexpr std::array kCalibratedInputs{
    Site::kMambaInProjIn,   Site::kMambaXProjIn,    Site::kMambaDtProjIn, Site::kMambaOutProjIn,  Site::kMixer1InProjIn,
    Site::kMixer1OutProjIn, Site::kMixer2OutProjIn, Site::kGmuInProjIn,   Site::kGmuOutProjIn,    Site::kQAProjIn,
    Site::kQBProjIn,        Site::kKvBProjIn,       Site::kQProjIn,       Site::kOProjIn,         Site::kGateProjIn,
    Site::kDownProjIn,      Site::kSharedGateIn,    Site::kSharedDownIn,  Site::kExpertsGateUpIn, Site::kExpertsDownIn};

// One batch's inputs of a linear layer, by channel.
struct CaughtInputs {
  AlignedBuffer<float> values = {};  // [PaddedRows(channels), tokens], padded with zeros
  int64_t channels = 0, tokens = 0;
  // For experts: those that each row chose (Model::ChosenExperts). experts.down.in has one token per choice.
  std::vector<int32_t> chosen = {};
  Site seen_as{};  // up_proj.in, where the layer has no gate_proj
};

class CalibrationPass {
 public:
  // Takes the room of all streams and inputs from `kept`, at once, and then runs the model's embedding. The model and
  // `kept` must outlive this. only: one of the batches, alone; none: all.
  CalibrationPass(Model& model, const std::vector<ScoredSequence>& sequences,
                  std::pmr::memory_resource& kept = *std::pmr::new_delete_resource(), std::optional<size_t> only = {});

  // A batch's inputs at these sites of the next layer, with its current weights, before none whose moments were asked.
  std::map<Site, CaughtInputs> InputsOf(size_t batch, int layer, std::span<const Site> sites);
  size_t batches() const { return parts_.size(); }
  const TokenBatch& batch(size_t index) const { return parts_.at(index).batch; }
  // The batch's residual stream [R, E] before the next layer, which this batch must not have begun.
  const float* StreamAt(size_t index) const { return parts_.at(index).stream.x.data(); }
  // Called after each batch that MomentsOf, MomentsOfExperts or Advance has taken through the layer.
  void OnBatch(std::function<void()> done) { on_batch_ = std::move(done); }

  // Moments of this input over all batches. exact: a pass of the text through the stored model, or null. Ask for a
  // layer's inputs in kCalibratedInputs' order; weights before one stay until Advance, since o_proj's and gate_proj's
  // inputs are kept and steps before them do not rerun. Throws Error where f32 cannot hold squares.
  SecondMoments MomentsOf(int layer, Site input, CalibrationPass* exact = nullptr);
  // As MomentsOf, for each of `count` experts from the first, whose input this is. Where the stored model sends a token
  // to another expert, its loss there is unknown, and its difference counts as 0.
  std::vector<SecondMoments> MomentsOfExperts(int layer, Site input, int first, int count,
                                              CalibrationPass* exact = nullptr);
  // Takes all tokens through the layer with its current weights; returns how many of them reached each expert.
  std::vector<int64_t> Advance(int layer);

  int64_t tokens() const { return tokens_; }
  const ModelConfig& config() const { return model_.config(); }

 private:
  struct Part {
    explicit Part(std::pmr::memory_resource& kept) : stream(kept) {}

    TokenBatch batch;
    Stream stream;
    std::optional<Site> reached;  // of the layer at work, the last input that was kept
    AlignedBuffer<float> input;   // [tokens, channels] it, or wider; the stream is the one there
  };

  CaughtInputs Input(size_t batch, int layer, Site input);
  std::map<Site, CaughtInputs> Catch(const Part& part, int layer, std::span<const Site> sites, Stream& stream,
                                     AlignedBuffer<float>* kept);
  void AddSquare(const CaughtInputs& a, std::vector<float>& sums);
  void AddProduct(const CaughtInputs& a, const CaughtInputs& b, std::vector<float>& sums);

  void Done() const {
    if (on_batch_) on_batch_();
  }

  Model& model_;
  std::optional<std::pmr::monotonic_buffer_resource> room_;  // of the parts: one allocation, so that none fails later
  std::vector<Part> parts_;
  std::function<void()> on_batch_;
  int64_t tokens_ = 0;
  Projector projector_{Math::kF32};  // for products of activations
  AlignedBuffer<float> product_;
};

// The second moments of an input; of experts, of one after another, as many together as ExpertsAtOnce says.
class InputMoments {
 public:
  InputMoments(CalibrationPass& calibration, int layer, Site input, CalibrationPass* exact = nullptr)
      : calibration_(calibration), layer_(layer), input_(input), exact_(exact) {}

  // expert: none before the one that was asked for last; empty for an input of no experts. Valid until the next call.
  SecondMoments& Of(std::optional<int> expert);

 private:
  CalibrationPass& calibration_;
  int layer_;
  Site input_;
  CalibrationPass* exact_;
  int first_ = 0;
  std::vector<SecondMoments> moments_;  // of the input, or of experts from first_
};

// Experts from the first whose second moments at an input, `matrices` for each, fit in 1 GiB together.
int ExpertsAtOnce(const ModelConfig& config, Site input, int first, int matrices);

// The site of a linear layer's input in MomentsOf.
Site InputOf(const LinearPlace& place);
// Linear layers of a layer that share the input of this site, each expert's too.
std::vector<LinearLayer> LayersWithInput(Site site, const ModelConfig& config, int layer);

}  // namespace tare
