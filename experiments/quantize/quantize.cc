// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/quantize.h"

#include <cmath>
#include <vector>

#include "experiments/model/model.h"
#include "experiments/quantize/weight_sites.h"
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
      if (const Rule* rule = RuleOf(name)) {
        const WeightMatrix matrix = StoredMatrix(*files_.Find(name), Where(name));
        GroupOf(rule->granularity, matrix.in, Where(name));
        ++summary_.matrices;
      }
    }
    if (summary_.matrices == 0) Fail("{}: the plan '{}' matches none of its tensors", where_, plan_.canonical());
  }

  QuantizeSummary Run(const QuantizeJob& job, const Progress& progress) {
    QuantizedCheckpointWriter out(job.out, {.plan = plan_.canonical(),
                                            .plan_hash = plan_.hash(),
                                            .method = "rtn",
                                            .source = ModelName(job.model),
                                            .source_sha256 = files_.ContentHash()});
    for (const char* name : {"config.json", "tokenizer.model", "tokenizer_config.json"}) {
      if (const auto text = CheckpointText(job.model, name)) out.AddFile(name, *text);
    }
    int64_t done = 0;
    for (const std::string& name : files_.names()) {
      ThrowIfStopped();
      const TensorView& tensor = *files_.Find(name);
      const auto bytes = static_cast<int64_t>(tensor.bytes.size());
      summary_.bytes_before += bytes;
      if (const Rule* rule = RuleOf(name)) {
        AddMatrix(name, *rule, out);
      } else {
        out.AddTensor(tensor);
        summary_.bytes_after += bytes;
      }
      files_.Release(name);
      done += bytes;
      if (progress) progress(done, files_.total_bytes(), "bytes");
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

  void AddMatrix(const std::string& name, const Rule& rule, QuantizedCheckpointWriter& out) {
    const WeightMatrix stored = StoredMatrix(*files_.Find(name), Where(name));
    const QuantizedMatrixBuffer matrix = QuantizeByRule(stored, rule, Where(name));
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
};

}  // namespace

QuantizeSummary Quantize(const QuantizeJob& job, const Progress& progress) { return Job(job).Run(job, progress); }

}  // namespace tare
