// SPDX-License-Identifier: Apache-2.0
// Rounds a model's layers one after another by a calibrated method: each by what the layers before it, already rounded,
// make of the calibration texts. A finished layer is a part of the job (provenance.h), which its next run takes up.
#pragma once

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "experiments/model/linear/weight_matrix.h"
#include "experiments/quantize/provenance.h"
#include "experiments/quantize/quantize.h"
#include "experiments/quantize/round_layers.h"
#include "quant/file/mapped_file.h"
#include "quant/file/quantized_checkpoint.h"

namespace tare {

// Rounds weights that share an input by the steps of a method, with the input's second moments.
class CalibratedRounding {
 public:
  // Steps that round layers together take no part. Throws Error, starting with `where`, for moments a step cannot use.
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
  // Opens the checkpoint at `model`, of which `matrices` are. reading: whether its bytes are known. provenance is the
  // job's, config_text the model's config.json. All but method and model must outlive this.
  CalibratedLayers(const QuantizeMethod& method, const std::filesystem::path& model, WeightReading reading,
                   const CalibrationWindows& text, const LayerMatrices& matrices, LayerParts& parts,
                   const Provenance& provenance, const std::string& config_text);

  // Rounds every layer that the job lacks. Returns how many tokens reached each expert, by layer.
  std::vector<ReachedExperts> Run(const Progress& progress);
  // After Run: QuantizeSummary::output_error.
  std::optional<double> OutputError() const {
    return compared_ == 0 ? std::nullopt : std::optional(std::sqrt(output_error_ / static_cast<double>(compared_)));
  }
  // A finished layer, every matrix of it as this job makes them.
  QuantizedCheckpoint Part(int layer) const;

 private:
  int64_t BatchesOf(int layer) const;
  int64_t PassesOf(int layer) const;
  // What rounds whole layers; null: matrices are rounded one after another.
  const LayerRounding* Together() const { return method_.codes->on_layer ? &*method_.codes->on_layer : nullptr; }
  bool RoundsTogetherIn(int layer) const {
    return Together() != nullptr && !parts_.Has(layer) && matrices_.RoundsIn(layer);
  }

  void PassLayer(int layer);
  void AddOutputErrors();
  void RoundLayer(int layer);
  void RoundTogether(int layer, QuantizedCheckpointWriter& part);
  int64_t SharingCode(int layer, Site input) const;
  void RoundInput(int layer, Site input, QuantizedCheckpointWriter& part, std::list<QuantizedMatrixBuffer>& of_experts);

  const QuantizeMethod method_;
  const Provenance& provenance_;
  const std::string& config_text_;
  const LayerMatrices& matrices_;
  const ModelConfig& config_;
  LayerParts& parts_;
  Model model_, stored_model_;  // the layers of the first become codes one by one
  DiskMemory states_;           // of tokens: beside the parts
  CalibrationPass calibration_;
  const size_t measured_;    // the batch that outputs are compared on, from the middle of the texts
  CalibrationPass stored_;   // of that batch alone, if the method compares with none
  double output_error_ = 0;  // the sum of relative squared errors of states
  int64_t compared_ = 0;     // how many
  std::vector<ReachedExperts> reached_;
  std::function<void()> on_batch_;
};

}  // namespace tare
