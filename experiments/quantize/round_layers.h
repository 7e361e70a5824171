// SPDX-License-Identifier: Apache-2.0
// Rounds a checkpoint's weights layer by layer into a quantized one; which weights a job rounds, as stored, and limits.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "experiments/model/config/family.h"
#include "experiments/plan/resolved_plan.h"
#include "experiments/quantize/provenance.h"
#include "experiments/quantize/quantize.h"
#include "quant/checkpoint/checkpoint.h"
#include "quant/interchange/gguf/imatrix.h"
#include "quant/plan/site.h"

namespace tare {

// Tensors that plans quantize, by name, and their sites.
std::map<std::string, SiteKey> WeightSites(const ModelConfig& config);

// The job's plan at the checkpoint's weights, with the static scales of the job's statistics.
ResolvedPlan PlanOfWeights(const QuantizeJob& job, const Checkpoint& files, const ModelConfig& config);

// Refuses whatever the plan and the method cannot do with these tensors, before the first is read.
void CheckRounding(const QuantizeJob& job, const Checkpoint& files, const ModelConfig& config);

// A checkpoint's matrices as they are stored, and, one after another, a layer's matrices that a plan rounds.
class LayerMatrices {
 public:
  // where: begins errors; round: a step's, or empty; imatrix: a file, or empty. The others must outlive this.
  LayerMatrices(std::string where, const ModelConfig& config, const ResolvedPlan& plan, const Checkpoint& files,
                RoundMatrix round = {}, const std::filesystem::path& imatrix = {})
      : where_(std::move(where)), config_(config), plan_(plan), files_(files), round_(std::move(round)) {
    if (!imatrix.empty()) imatrix_ = gguf::ReadImatrix(imatrix);
  }

  const std::string& where() const { return where_; }
  const ModelConfig& config() const { return config_; }
  const ResolvedPlan& plan() const { return plan_; }
  std::string Where(const std::string& tensor) const;

  // The plan's rule for a linear layer's weight; null: the weight stays as it is.
  const Rule* RuleFor(const LinearLayer& linear) const { return plan_.RuleAt(linear.WeightKey()); }
  // Whether the plan rounds any in the layer.
  bool RoundsIn(int layer) const;

  // Throws Error for a tensor that is no matrix.
  WeightMatrix Stored(const std::string& name) const;
  // A matrix by itself, by a step or to nearest. The imatrix weighs +mse's errors; throws Error if it lacks the matrix.
  QuantizedMatrixBuffer Alone(const LinearLayer& linear, const std::string& name, const Rule& rule) const;

  using ForMatrix = std::function<void(const LinearLayer&, const std::string& name, const Rule&)>;
  // Calls body for each matrix of the layer that the plan rounds, in order, and then releases the file's memory of it.
  void ForEach(int layer, const ForMatrix& body) const;
  // As ForEach, for one matrix, if the plan rounds it.
  void Visit(const LinearLayer& linear, const ForMatrix& body) const;

 private:
  std::string where_;
  const ModelConfig& config_;
  const ResolvedPlan& plan_;
  const Checkpoint& files_;
  RoundMatrix round_;
  std::optional<gguf::Imatrix> imatrix_;
};

// model: the job's, or made from it; text: for calibration. parts: keeps finished layers for later; null: keeps none.
QuantizeSummary RoundLayers(const QuantizeJob& job, const ModelFiles& model, const CalibrationWindows& text,
                            LayerParts* parts, const Progress& progress);

}  // namespace tare
