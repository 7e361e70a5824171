// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/quantize.h"

#include <cmath>
#include <format>
#include <map>
#include <memory>
#include <vector>

#include "experiments/model/model.h"
#include "experiments/quantize/calibration.h"
#include "experiments/quantize/weight_sites.h"
#include "experiments/text/token_input.h"
#include "quant/algorithms/gptq.h"
#include "quant/base/error.h"
#include "quant/base/interrupt.h"
#include "quant/base/parallel.h"
#include "quant/file/quantized_checkpoint.h"

namespace tare {
namespace {

// A stored matrix by rows of f32.
WeightMatrix StoredMatrix(const TensorView& tensor, const std::string& where) {
  if (tensor.shape.size() != 2 || tensor.elements() == 0)
    Fail("{}: got a tensor of {} dimensions, expected a matrix", where, tensor.shape.size());
  WeightType type = WeightType::kF32;
  if (tensor.dtype == DType::kBF16) {
    type = WeightType::kBf16;
  } else if (tensor.dtype == DType::kF16) {
    type = WeightType::kF16;
  } else if (tensor.dtype != DType::kF32) {
    Fail("{}: got dtype {}, expected F32, BF16 or F16", where, Name(tensor.dtype));
  }
  return {tensor.bytes.data(), type, tensor.shape[0], tensor.shape[1]};
}

struct SquaredSums {
  double error = 0, size = 0;
};

// What GPTQ needs beside the files.
struct Calibrated {
  Calibrated(const QuantizeJob& job)
      : model(job.model),
        input(LoadTokenInput(job.calibration, job.model, model.config().vocabulary)),
        calibration(model, CutDisjoint(input, model.config(), job.windows)) {}
  std::string Text() const {
    return std::format("{}, sha256 {}, {} tokens", input.path.filename().string(), input.sha256, calibration.tokens());
  }

  Model model;
  TokenInput input;
  Calibration calibration;
};

class Job {
 public:
  explicit Job(const QuantizeJob& job)
      : plan_(job.plan), where_(job.model.string()), config_(LoadConfig(job.model)), files_(job.model) {
    if (files_.quantized() != nullptr)
      Fail("{}: is quantized already ({}); expected a checkpoint folder", where_,
           files_.quantized()->provenance().plan);
    CheckWeightPlan(plan_, config_);
    // Whatever can be refused is refused before the first tensor.
    for (const std::string& name : files_.names()) {
      if (const Rule* rule = RuleOf(name)) CheckMatrix(name, *rule, job.method);
    }
    if (summary_.matrices == 0) Fail("{}: the plan '{}' matches none of its tensors", where_, plan_.canonical());
    if (job.method == QuantizeMethod::kGptq) {
      if (job.calibration.empty()) Fail("quantize, gptq: got no calibration text; try --calibrate TEXT");
      calibrated_ = std::make_unique<Calibrated>(job);
    }
  }

  QuantizeSummary Run(const QuantizeJob& job, const Progress& progress) {
    QuantizedCheckpointWriter out(job.out, {.plan = plan_.canonical(),
                                            .plan_hash = plan_.hash(),
                                            .method = calibrated_ ? "gptq" : "rtn",
                                            .source = ModelName(job.model),
                                            .source_sha256 = files_.ContentHash(),
                                            .calibration = calibrated_ ? calibrated_->Text() : ""});
    for (const char* name : {"config.json", "tokenizer.model", "tokenizer_config.json"}) {
      if (const auto text = CheckpointText(job.model, name)) out.AddFile(name, *text);
    }
    for (const std::string& name : files_.names()) AddOutsideLayers(name, out);
    for (int layer = 0; layer < config_.layers; ++layer) {
      ThrowIfStopped();
      AddLayer(layer, out);
      if (progress) progress(layer + 1, config_.layers, "layers");
    }
    out.Commit();
    summary_.relative_error = sums_.size > 0 ? std::sqrt(sums_.error / sums_.size) : 0;
    summary_.bits_per_weight = 8 * static_cast<double>(code_bytes_) / static_cast<double>(summary_.values);
    return summary_;
  }

 private:
  std::string Where(const std::string& tensor) const { return std::format("{}: tensor '{}'", where_, tensor); }

  const Rule* RuleOf(const std::string& tensor) const {
    const std::optional<WeightSite> site = WeightSiteOf(tensor);
    return site ? WeightRule(plan_, *site) : nullptr;
  }

  void CheckMatrix(const std::string& name, const Rule& rule, QuantizeMethod method) {
    const WeightMatrix matrix = StoredMatrix(*files_.Find(name), Where(name));
    GroupOf(rule.granularity, matrix.in, Where(name));
    if (method == QuantizeMethod::kGptq && rule.granularity.kind == Granularity::Kind::kTensor)
      Fail("quantize, rule '{}': gptq takes a scale a channel or group; try channel", rule.text);
    if (method == QuantizeMethod::kGptq && rule.sites.front() == Site::kLmHeadW)
      Fail("quantize, rule '{}': gptq takes weights inside the layers; try rtn for the head", rule.text);
    ++summary_.matrices;
  }

  // Everything but the layers' quantized matrices.
  void AddOutsideLayers(const std::string& name, QuantizedCheckpointWriter& out) {
    const TensorView& tensor = *files_.Find(name);
    const auto bytes = static_cast<int64_t>(tensor.bytes.size());
    summary_.bytes_before += bytes;
    const Rule* rule = RuleOf(name);
    if (rule == nullptr) {
      out.AddTensor(tensor);
      summary_.bytes_after += bytes;
    } else if (WeightSiteOf(name)->layer < 0) {
      Add(name, QuantizeByRule(Stored(name), *rule, Where(name)), *rule, out);
    } else {
      return;
    }
    files_.Release(name);
  }

  void AddLayer(int layer, QuantizedCheckpointWriter& out) {
    std::map<Site, SecondMoments> moments;
    std::map<Site, GptqFactor> factors;  // weights with the same input share one
    if (calibrated_) moments = calibrated_->calibration.MomentsOf(layer);
    for (const LinearPlace& place : kLinearPlaces) {
      const std::string name = std::format("model.layers.{}.{}", layer, place.tensor);
      const Rule* rule = RuleOf(name);
      if (rule == nullptr) continue;
      if (!calibrated_) {
        Add(name, QuantizeByRule(Stored(name), *rule, Where(name)), *rule, out);
      } else {
        const Site input = InputOf(place);
        const SecondMoments& m = moments.at(input);
        const GptqFactor& factor = factors.try_emplace(input, m.values, m.in, kGptqDamping, Where(name)).first->second;
        const QuantizedMatrixBuffer matrix = RoundWith(factor, name, *rule);
        calibrated_->model.UseCodes(layer, place, matrix.view());
        Add(name, matrix, *rule, out);
      }
      files_.Release(name);
    }
    if (calibrated_ && layer + 1 < config_.layers) calibrated_->calibration.Advance(layer);
  }

  WeightMatrix Stored(const std::string& name) const { return StoredMatrix(*files_.Find(name), Where(name)); }

  QuantizedMatrixBuffer RoundWith(const GptqFactor& factor, const std::string& name, const Rule& rule) const {
    const WeightMatrix stored = Stored(name);
    QuantizedMatrixBuffer matrix(rule.format, stored.out, stored.in, GroupOf(rule.granularity, stored.in, Where(name)));
    factor.Round([&](int64_t row, float* y) { RowAsFloat(stored, row, y); },
                 rule.options.mse ? ClipChoice::kLeastSquares : ClipChoice::kAbsmax, matrix);
    return matrix;
  }

  void Add(const std::string& name, const QuantizedMatrixBuffer& matrix, const Rule& rule,
           QuantizedCheckpointWriter& out) {
    const WeightMatrix stored = Stored(name);
    AddError(stored, matrix.view());
    out.AddMatrix(name, matrix.view(), rule.granularity);
    const auto bytes = static_cast<int64_t>(matrix.code_bytes() + 4 * matrix.scale_count());
    code_bytes_ += bytes;
    summary_.bytes_after += bytes;
    summary_.values += stored.out * stored.in;
  }

  // Rows' sums are added in order, so that the threads do not show.
  void AddError(const WeightMatrix& stored, const QuantizedMatrix& matrix) {
    std::vector<SquaredSums> sums(static_cast<size_t>(stored.out));
    ParallelFor(sums.size(), [&](size_t r, int) {
      thread_local std::vector<float> values, rounded;
      values.resize(static_cast<size_t>(stored.in));
      rounded.resize(values.size());
      RowAsFloat(stored, static_cast<int64_t>(r), values.data());
      DequantizeRow(matrix, static_cast<int64_t>(r), rounded.data());
      for (size_t i = 0; i < values.size(); ++i) {
        const double error = double{values[i]} - double{rounded[i]};
        sums[r].error += error * error;
        sums[r].size += double{values[i]} * double{values[i]};
      }
    });
    for (const SquaredSums& row : sums) {
      sums_.error += row.error;
      sums_.size += row.size;
    }
  }

  const Plan& plan_;
  std::string where_;
  ModelConfig config_;
  Checkpoint files_;
  QuantizeSummary summary_;
  SquaredSums sums_;
  int64_t code_bytes_ = 0;
  std::unique_ptr<Calibrated> calibrated_;  // GPTQ's
};

}  // namespace

QuantizeSummary Quantize(const QuantizeJob& job, const Progress& progress) { return Job(job).Run(job, progress); }

}  // namespace tare
