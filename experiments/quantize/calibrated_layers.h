// SPDX-License-Identifier: Apache-2.0
// Rounds a model's layers one after another by a calibrated method: each by what the layers before it, already rounded,
// make of the calibration texts. A finished layer is a part of the job (provenance.h), which a resumed job takes up.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "experiments/quantize/calibration/calibration_pass.h"
#include "experiments/quantize/layer_matrices.h"
#include "experiments/quantize/provenance.h"
#include "experiments/quantize/quantize.h"
#include "quant/file/quantized_checkpoint.h"

namespace tare {

class CalibratedLayers {
 public:
  // Reads the checkpoint at `model`, of which `matrices` are, and the job's calibration texts. reading: whether the
  // checkpoint's bytes are known. matrices and parts must outlive this.
  CalibratedLayers(const QuantizeJob& job, const std::filesystem::path& model, WeightReading reading,
                   const LayerMatrices& matrices, LayerParts& parts);
  ~CalibratedLayers();

  const CalibrationWindows& text() const { return text_; }

  // Rounds every layer that is no part of the job yet. `provenance` is the job's, config_text the model's config.json.
  // Returns how many tokens reached the experts of each layer that has some.
  std::vector<ReachedExperts> Run(const Provenance& provenance, const std::string& config_text,
                                  const Progress& progress);
  // A finished layer, every matrix of it as this job makes them; after Run has begun.
  QuantizedCheckpoint Part(int layer) const;

 private:
  struct Stored;

  int64_t BatchesOf(int layer) const;
  int64_t BatchesOfLearning() const;
  int64_t PassesOf(int layer) const;
  int64_t PassesOfExperts(Site input) const;
  int AtOnce(Site input, int first) const;
  bool Learns() const { return method_.rounding == QuantizeMethod::Rounding::kAutoRound; }
  bool LearnsIn(int layer) const { return !parts_.Has(layer) && matrices_.RoundsIn(layer); }
  bool Advances(int layer) const;
  bool StoredAdvances(int layer) const;
  CalibrationPass* StoredPass();

  void PassLayer(int layer);
  void RoundLayer(int layer);
  void LearnLayer(int layer, QuantizedCheckpointWriter& part);
  void RoundInput(int layer, Site input, QuantizedCheckpointWriter& part);
  int64_t Together(int layer, Site input) const;
  void RoundExperts(int layer, Site input, QuantizedCheckpointWriter& part, std::list<QuantizedMatrixBuffer>& used);

  const QuantizeMethod method_;
  const LayerMatrices& matrices_;
  const ModelConfig& config_;
  LayerParts& parts_;
  Model model_;  // its layers become codes one by one
  CalibrationWindows text_;
  CalibrationPass calibration_;
  std::unique_ptr<Stored> stored_;  // the model as stored, where the method compares with it
  std::vector<ReachedExperts> reached_;
  Provenance provenance_;
  std::string config_text_;
  std::function<void()> on_batch_;
};

}  // namespace tare
