// SPDX-License-Identifier: Apache-2.0
// Rounds a model's layers one after another by a calibrated method: each by what the layers before it, already rounded,
// make of the calibration texts. A finished layer is a part of the job (provenance.h), which its next run takes up.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "experiments/model/linear/weight_matrix.h"
#include "experiments/quantize/method.h"
#include "experiments/quantize/provenance.h"
#include "experiments/quantize/round_layers.h"
#include "quant/file/quantized_checkpoint.h"

namespace tare {

// What the outputs of a linear layer lose: ||(W - Q) X||^2 / ||W X||^2, of the inputs X with the moments X X^T; NaN
// where all outputs are 0. As exact as OutputError.
double OutputLoss(const WeightMatrix& stored, const QuantizedMatrix& codes, const SecondMoments& m,
                  const std::string& where);

// The loss that a part of a job keeps beside a matrix; none where it was not measured.
std::optional<double> OutputLossIn(const QuantizedCheckpoint& part, const std::string& matrix);

// Rounds weights that share an input by the steps of a method, with the input's second moments.
class CalibratedRounding {
 public:
  // The steps that round layers together take no part. Throws Error, starting with the input's `where`, for moments
  // that a step cannot use.
  CalibratedRounding(const QuantizeMethod& method, SharedInput input);

  // weight: the matrix's site; rule: not with one scale per tensor. Uses all threads.
  QuantizedMatrixBuffer Round(const WeightMatrix& stored, Site weight, const Rule& rule,
                              const std::string& where) const;

 private:
  GroupEnds EndsFor(Site weight, const Rule& rule, const ReadRow& read, const QuantizedMatrixBuffer& matrix) const;

  InputRounding by_;  // each function of the step that has it
};

class CalibratedLayers {
 public:
  // Opens the checkpoint at `model`, of which `matrices` are. reading: whether its bytes are known. text, matrices and
  // parts must outlive this.
  CalibratedLayers(const QuantizeMethod& method, const std::filesystem::path& model, WeightReading reading,
                   const CalibrationWindows& text, const LayerMatrices& matrices, LayerParts& parts);

  // Rounds every layer that is no part of the job yet. `provenance` is the job's, config_text the model's config.json.
  // Returns how many tokens reached the experts of each layer that has some.
  std::vector<ReachedExperts> Run(const Provenance& provenance, const std::string& config_text,
                                  const Progress& progress);
  // A finished layer, every matrix of it as this job makes them; after Run has begun.
  QuantizedCheckpoint Part(int layer) const;

 private:
  int64_t BatchesOf(int layer) const;
  int64_t PassesOf(int layer) const;
  // What rounds whole layers; null: matrices are rounded one after another.
  const LayerRounding* Together() const { return method_.codes->on_layer ? &*method_.codes->on_layer : nullptr; }
  bool RoundsTogetherIn(int layer) const {
    return Together() != nullptr && !parts_.Has(layer) && matrices_.RoundsIn(layer);
  }
  bool Advances(int layer) const;
  bool StoredAdvances(int layer) const;

  void PassLayer(int layer);
  void RoundLayer(int layer);
  void RoundTogether(int layer, QuantizedCheckpointWriter& part);
  int64_t SharingCode(int layer, Site input) const;
  void RoundInput(int layer, Site input, QuantizedCheckpointWriter& part, std::list<QuantizedMatrixBuffer>& of_experts);

  const QuantizeMethod method_;
  const LayerMatrices& matrices_;
  const ModelConfig& config_;
  LayerParts& parts_;
  Model model_;  // its layers become codes one by one
  CalibrationPass calibration_;
  std::optional<Model> stored_model_;  // the model as stored, where the method compares with it
  std::optional<CalibrationPass> stored_;
  std::vector<ReachedExperts> reached_;
  Provenance provenance_;
  std::string config_text_;
  std::function<void()> on_batch_;
};

}  // namespace tare
