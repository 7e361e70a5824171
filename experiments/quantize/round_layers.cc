// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/round_layers.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "experiments/model/config/family.h"
#include "experiments/model/linear/rounded_weight.h"
#include "experiments/quantize/calibrated_layers.h"
#include "experiments/quantize/rounded_weights.h"
#include "experiments/quantize/squared_error.h"
#include "experiments/quantize/written_tensor.h"
#include "quant/base/error.h"
#include "quant/base/parallel.h"
#include "quant/file/quantized_checkpoint.h"
#include "quant/file/sha256.h"

namespace tare {
namespace {

class Job {
 public:
  Job(const QuantizeJob& job, const ModelFiles& model, const CalibrationWindows& text, LayerParts* parts)
      : model_(model.path),
        config_text_(ModelConfigText(model_).value_or("")),
        config_(model.config),
        sites_(WeightSites(config_)),
        files_(model.files),
        plan_(PlanOfWeights(job, files_, config_)),
        matrices_(model_.string(), config_, plan_, files_),
        provenance_(ProvenanceOf(files_, model_, job.model_sha256)) {
    TARE_CHECK(parts != nullptr || !job.method.RoundsByCalibration());
    summary_.matrices = CheckRounding(job, files_, config_);
    provenance_.plan = job.plan.canonical();
    provenance_.plan_hash = job.plan.hash();
    if (job.plan.HasStaticScales()) {
      AddStep(provenance_, "", "static scales of statistics sha256 " + Sha256OfFile(job.statistics));
    }
    if (job.method.RoundsByCalibration()) {
      const bool known = model_ == job.model && !job.model_sha256.empty();
      calibrated_.emplace(job.method, model_, known ? WeightReading::kKnown : WeightReading::kWhole, text, matrices_,
                          *parts);
    }
    AddStep(provenance_, job.method.RoundingText(), calibrated_ ? text.provenance : "");
  }

  QuantizeSummary Run(const std::filesystem::path& path, const Progress& progress) {
    // Hours; only then is the result begun.
    if (calibrated_) summary_.experts = calibrated_->Run(provenance_, config_text_, progress);
    QuantizedCheckpointWriter out(path, provenance_);
    AddTextFiles(model_, config_text_, out);
    for (const auto& [place, clips] : KeptClips(plan_.clips())) out.AddClips(place, clips);
    for (const std::string& name : files_.names()) AddOutsideLayers(name, out);
    for (int layer = 0; layer < config_.layers; ++layer) {
      ThrowIfStopped();
      AddLayer(layer, out);
      Report(progress, layer + 1, config_.layers, "layers written");
    }
    out.Commit();
    summary_.relative_error = sums_.size > 0 ? std::sqrt(sums_.error / sums_.size) : 0;
    summary_.bits_per_weight = 8 * static_cast<double>(code_bytes_) / static_cast<double>(summary_.values);
    return summary_;
  }

 private:
  // Everything but the layers' quantized matrices.
  void AddOutsideLayers(const std::string& name, QuantizedCheckpointWriter& out) {
    const auto found = sites_.find(name);
    const Rule* rule = found == sites_.end() ? nullptr : plan_.RuleAt(found->second);
    if (rule == nullptr) {
      const WrittenTensor tensor(files_, name);
      out.AddTensor(tensor.view());
      summary_.bytes_before += tensor.stored_bytes();
      summary_.bytes_after += static_cast<int64_t>(tensor.view().bytes.size());
    } else {
      summary_.bytes_before += matrices_.StoredBytes(name);
      if (found->second.layer) return;
      Add(name, Rounded(name, *rule).view(), *rule, out);
    }
    files_.Release(name);
  }

  void AddLayer(int layer, QuantizedCheckpointWriter& out) {
    std::optional<QuantizedCheckpoint> part;
    if (calibrated_) part.emplace(calibrated_->Part(layer));
    matrices_.ForEach(layer, [&](const LinearLayer&, const std::string& name, const Rule& rule) {
      if (part) {
        Add(name, part->matrices().at(name), rule, out);
      } else {
        Add(name, Rounded(name, rule).view(), rule, out);
      }
    });
  }

  // To nearest.
  QuantizedMatrixBuffer Rounded(const std::string& name, const Rule& rule) const {
    return QuantizeByRule(matrices_.Stored(name), rule, matrices_.Where(name));
  }

  void Add(const std::string& name, const QuantizedMatrix& matrix, const Rule& rule, QuantizedCheckpointWriter& out) {
    const WeightMatrix stored = matrices_.Stored(name);
    AddError(stored, matrix, matrices_.Where(name));
    out.AddMatrix(name, matrix, rule.granularity);
    const auto bytes = static_cast<int64_t>(matrix.Bytes());
    code_bytes_ += bytes;
    summary_.bytes_after += bytes;
    summary_.values += stored.out * stored.in;
  }

  // Rows' sums are added in order, so that the threads do not show.
  void AddError(const WeightMatrix& stored, const QuantizedMatrix& matrix, const std::string& where) {
    std::vector<Squares> sums(static_cast<size_t>(stored.out));
    ParallelFor(sums.size(), [&](size_t r, int) {
      thread_local std::vector<float> values, rounded;
      values.resize(static_cast<size_t>(stored.in));
      rounded.resize(values.size());
      RowAsFloat(stored, static_cast<int64_t>(r), values.data());
      DequantizeRow(matrix, static_cast<int64_t>(r), rounded.data(), where);
      sums[r] = SquaresOf(values, rounded);
    });
    for (const Squares& row : sums) {
      sums_.error += row.error;
      sums_.size += row.size;
    }
  }

  const std::filesystem::path& model_;
  std::string config_text_;  // config.json, which the parts of a job share
  const ModelConfig& config_;
  std::map<std::string, SiteKey> sites_;
  const Checkpoint& files_;
  ResolvedPlan plan_;
  LayerMatrices matrices_;
  Provenance provenance_;
  QuantizeSummary summary_;
  Squares sums_;
  int64_t code_bytes_ = 0;
  std::optional<CalibratedLayers> calibrated_;
};

}  // namespace

QuantizeSummary RoundLayers(const QuantizeJob& job, const ModelFiles& model, const CalibrationWindows& text,
                            LayerParts* parts, const Progress& progress) {
  return Job(job, model, text, parts).Run(job.out, progress);
}

}  // namespace tare
