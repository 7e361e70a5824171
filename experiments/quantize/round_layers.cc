// SPDX-License-Identifier: Apache-2.0
// The check of rotations, Job, the sites of weights and their plan, CheckRounding, LayerMatrices, and RoundLayers.
#include "experiments/quantize/round_layers.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>
#include <vector>

#include "experiments/model/linear/weight_matrix.h"
#include "experiments/model/linear/weights.h"
#include "experiments/model/plan_run.h"
#include "experiments/quantize/calibrated_layers.h"
#include "experiments/quantize/calibration/calibration_pass.h"
#include "experiments/quantize/importance.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "quant/file/quantized_checkpoint.h"
#include "quant/file/sha256.h"
#include "quant/format/quantized_matrix.h"

namespace tare {
namespace {

// The columns of a matrix; 0 if there is none, or if the tensor is no matrix, which is refused when it is read.
int64_t InputsOf(const Checkpoint& files, const std::string& name) {
  if (const ForeignMatrix* matrix = files.FindForeign(name)) return matrix->in();
  const TensorView* const tensor = files.Find(name);
  return tensor != nullptr && tensor->shape.size() == 2 ? tensor->shape[1] : 0;
}

// Weights that multiply one input are rounded with one matrix of its moments, which is rotated as they are.
void CheckRotations(const ResolvedPlan& plan, const Checkpoint& files, const ModelConfig& config,
                    const std::string& method) {
  std::map<std::tuple<int, Site, std::optional<int>>, const Rule*> rules;  // the first by layer, input and expert
  for (int layer = 0; layer < config.layers; ++layer) {
    for (const LinearLayer& linear : LinearLayersOf(config, layer)) {
      const Rule* const rule = plan.RuleAt(linear.WeightKey());
      if (rule == nullptr) continue;
      const Rule* const first =
          rules.emplace(std::tuple(layer, InputOf(*linear.place), linear.expert), rule).first->second;
      const int64_t in = InputsOf(files, linear.Tensor(config) + ".weight");
      if (in > 0 && first->options.Rotation(in) != rule->options.Rotation(in))
        RefuseRule(*rule, Formatted("another rotation of {} than '{}' has", TextOf(linear.WeightKey()), first->text),
                   "the same for all weights with one input, as " + method + " takes them", "rtn");
    }
  }
}

class Job {
 public:
  Job(const QuantizeJob& job, const ModelFiles& model, const CalibrationWindows& text, LayerParts* parts)
      : model_(model.path),
        config_text_(ModelConfigText(model_).value_or("")),
        config_(model.config),
        sites_(WeightSites(config_)),
        files_(model.files),
        plan_(PlanOfWeights(job, files_, config_)),
        matrices_(model_.string(), config_, plan_, files_, job.method.codes->on_matrix, job.imatrix),
        provenance_(ProvenanceOf(files_, model_, job.model_sha256)),
        parts_(parts) {
    TARE_CHECK(parts != nullptr || text.sequences.empty());
    CheckRounding(job, files_, config_);
    provenance_.plan = job.plan.canonical();
    provenance_.plan_hash = job.plan.hash();
    if (job.plan.HasStaticScales())
      AddStep(provenance_, "", "static scales of statistics sha256 " + Sha256OfFile(job.statistics));
    if (!job.imatrix.empty()) AddStep(provenance_, "", "imatrix sha256 " + Sha256OfFile(job.imatrix));
    AddStep(provenance_, job.method.RoundingText(), job.method.RoundsByCalibration() ? text.provenance : "");
    if (!text.sequences.empty()) {
      const bool known = model_ == job.model && !job.model_sha256.empty();
      calibrated_.emplace(job.method, model_, known ? WeightReading::kKnown : WeightReading::kWhole, text, matrices_,
                          *parts, provenance_, config_text_);
    }
  }

  QuantizeSummary Run(const std::filesystem::path& path, const Progress& progress) {
    summary_.bytes_before = files_.total_bytes();
    if (parts_ != nullptr) parts_->TakeUp(provenance_, config_text_, config_.layers);
    // Hours; only then is the result begun.
    if (calibrated_) summary_.experts = calibrated_->Run(progress);
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
    summary_.weight_error = sums_.size > 0 ? std::sqrt(sums_.error / sums_.size) : 0;
    if (calibrated_) summary_.output_error = calibrated_->OutputError();
    summary_.bits_per_weight = 8 * static_cast<double>(code_bytes_) / static_cast<double>(summary_.values);
    return summary_;
  }

 private:
  // Everything but the layers' quantized matrices.
  void AddOutsideLayers(const std::string& name, QuantizedCheckpointWriter& out) {
    const auto found = sites_.find(name);
    const Rule* rule = found == sites_.end() ? nullptr : plan_.RuleAt(found->second);
    if (rule == nullptr) {
      AlignedBuffer<char> memory;
      const TensorView tensor = WrittenTensor(files_, name, memory);
      out.AddTensor(tensor);
      summary_.bytes_after += static_cast<int64_t>(tensor.bytes.size());
    } else {
      if (found->second.layer) return;
      Add(name, QuantizeByRule(matrices_.Stored(name), *rule, matrices_.Where(name)).view(), *rule, out);
    }
    files_.Release(name);
  }

  void AddLayer(int layer, QuantizedCheckpointWriter& out) {
    std::optional<QuantizedCheckpoint> part;
    if (calibrated_) part.emplace(calibrated_->Part(layer));
    matrices_.ForEach(layer, [&](const LinearLayer& linear, const std::string& name, const Rule& rule) {
      Add(name, part ? part->matrices().at(name) : matrices_.Alone(linear, name, rule).view(), rule, out);
    });
  }

  void Add(const std::string& name, const QuantizedMatrix& matrix, const Rule& rule, QuantizedCheckpointWriter& out) {
    const WeightMatrix stored = matrices_.Stored(name);
    AddError(stored, matrix, matrices_.Where(name));
    out.AddMatrix(name, matrix, rule.granularity);
    const auto bytes = static_cast<int64_t>(matrix.Bytes());
    ++summary_.matrices;
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
  const LayerParts* parts_;
  QuantizeSummary summary_;
  Squares sums_;
  int64_t code_bytes_ = 0;
  std::optional<CalibratedLayers> calibrated_;
};

}  // namespace

std::map<std::string, SiteKey> WeightSites(const ModelConfig& config) {
  const Family& family = FamilyOf(config);
  std::map<std::string, SiteKey> sites{{std::string(family.names.head), {Site::kLmHeadW}}};
  for (int layer = 0; layer < config.layers; ++layer) {
    for (const LinearLayer& linear : LinearLayersOf(config, layer))
      sites[linear.Tensor(config) + ".weight"] = linear.WeightKey();
  }
  return sites;
}

ResolvedPlan PlanOfWeights(const QuantizeJob& job, const Checkpoint& files, const ModelConfig& config) {
  StaticSource statics;
  if (job.plan.HasStaticScales()) statics = StaticSourceOf(job.statistics, files);
  ModelSites sites = ModelSitesOf(config);
  for (const auto& [name, key] : WeightSites(config)) {
    if (const int64_t in = InputsOf(files, name); in > 0) sites.weights[key].in = in;
  }
  return {job.plan, sites, Carrying::kStored, statics};
}

void CheckRounding(const QuantizeJob& job, const Checkpoint& files, const ModelConfig& config) {
  const ResolvedPlan plan = PlanOfWeights(job, files, config);
  const std::string method = job.method.Text();
  bool weighs = job.imatrix.empty();
  for (const auto& [name, key] : WeightSites(config)) {
    const Rule* rule = plan.RuleAt(key);
    if (rule == nullptr || !files.Has(name)) continue;
    const FormatInfo& info = Info(rule->format);
    const int64_t group = GroupOf(rule->granularity, InputsOf(files, name));
    if (group % info.together != 0)
      RefuseRule(*rule, Formatted("groups of {} in '{}'", group, name),
                 Formatted("groups of a multiple of {}, which share a code", info.together), "group16");
    const bool one_scale = rule->granularity.kind == Granularity::Kind::kTensor;
    if (!job.imatrix.empty() && rule->options.mse && (one_scale || rule->options.hadamard || !key.layer))
      RefuseRule(*rule, Formatted("'{}' with --imatrix", name),
                 "weights of layers, a scale per channel or group and no +hadamard", "it without +mse");
    weighs = weighs || rule->options.mse;
    if (!job.method.RoundsByCalibration()) continue;
    if (one_scale)
      RefuseRule(*rule, ScaleText(*rule), "one per channel or group<N>, as " + method + " takes it", "channel");
    for (const Step* step : job.method.Steps()) {
      if (step->check_rule) step->check_rule(*rule);
    }
    if (rule->sites.front() == Site::kLmHeadW)
      RefuseRule(*rule, Name(Site::kLmHeadW), "weights inside the layers, as " + method + " takes them",
                 "rtn for the head");
  }
  if (!weighs)
    FailUsage("--imatrix: got the plan '{}', in which no weight has +mse, expected one; try weights=int4/group16+mse",
              job.plan.canonical());
  if (job.method.RoundsByCalibration() && !job.method.codes->on_layer) CheckRotations(plan, files, config, method);
}

std::string LayerMatrices::Where(const std::string& tensor) const {
  return Formatted("{}: tensor '{}'", where_, tensor);
}

bool LayerMatrices::RoundsIn(int layer) const {
  return std::ranges::any_of(LinearLayersOf(config_, layer),
                             [&](const LinearLayer& linear) { return RuleFor(linear) != nullptr; });
}

WeightMatrix LayerMatrices::Stored(const std::string& name) const {
  const TensorView* const tensor = files_.Find(name);
  if (tensor != nullptr && tensor->shape.size() != 2)
    Fail("{}: got a tensor of {} dimensions, expected a matrix", Where(name), tensor->shape.size());
  return StoredMatrix(files_, name, Where(name));
}

QuantizedMatrixBuffer LayerMatrices::Alone(const LinearLayer& linear, const std::string& name, const Rule& rule) const {
  std::vector<float> importance;
  if (imatrix_ && rule.options.mse) importance = ImportanceOf(*imatrix_, config_, linear);
  return (round_ ? round_ : QuantizeByRule)(Stored(name), rule, Where(name), importance);
}

void LayerMatrices::ForEach(int layer, const ForMatrix& body) const {
  for (const LinearLayer& linear : LinearLayersOf(config_, layer)) Visit(linear, body);
}

void LayerMatrices::Visit(const LinearLayer& linear, const ForMatrix& body) const {
  const Rule* const rule = RuleFor(linear);
  if (rule == nullptr) return;
  const std::string name = linear.Tensor(config_) + ".weight";
  body(linear, name, *rule);
  files_.Release(name);
}

QuantizeSummary RoundLayers(const QuantizeJob& job, const ModelFiles& model, const CalibrationWindows& text,
                            LayerParts* parts, const Progress& progress) {
  return Job(job, model, text, parts).Run(job.out, progress);
}

}  // namespace tare
