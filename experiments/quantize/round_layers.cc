// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/round_layers.h"

#include <algorithm>
#include <cmath>
#include <list>
#include <memory>
#include <set>
#include <vector>

#include "experiments/model/family.h"
#include "experiments/model/fused_tensors.h"
#include "experiments/model/model.h"
#include "experiments/quantize/calibrated_rounding.h"
#include "experiments/quantize/calibration_pass.h"
#include "experiments/quantize/learned_layer.h"
#include "experiments/quantize/rounded_weights.h"
#include "experiments/quantize/squared_error.h"
#include "experiments/quantize/written_tensor.h"
#include "quant/base/error.h"
#include "quant/base/formatted.h"
#include "quant/base/interrupt.h"
#include "quant/base/parallel.h"
#include "quant/file/quantized_checkpoint.h"
#include "quant/file/sha256.h"

namespace tare {
namespace {

// What a calibrated method needs besides the files.
struct Calibrated {
  // reading: of the checkpoint at `path`.
  Calibrated(const QuantizeJob& job, const std::filesystem::path& path, WeightReading reading)
      : model(path, reading),
        text(CutCalibration(job.calibration, model, job.windows)),
        calibration(model, text.sequences) {
    if (!job.method.ComparesWithStored()) return;
    exact = std::make_unique<Exact>(path, text.sequences, model.images());
  }

  struct Exact {
    Exact(const std::filesystem::path& path, const std::vector<ScoredSequence>& text,
          const std::shared_ptr<const Images>& images)
        : model(path, WeightReading::kKnown), calibration(Shown(model, images), text) {}
    static Model& Shown(Model& model, const std::shared_ptr<const Images>& images) {
      if (images != nullptr) model.Show(images);
      return model;
    }
    Model model;
    CalibrationPass calibration;
  };

  Model model;  // its layers become codes one by one
  CalibrationWindows text;
  CalibrationPass calibration;
  std::unique_ptr<Exact> exact;  // the model as stored, where it is looked at
};

class Job {
 public:
  Job(const QuantizeJob& job, const std::filesystem::path& model, LayerParts* parts)
      : method_(job.method),
        model_(model),
        where_(model.string()),
        config_text_(ModelConfigText(model).value_or("")),
        config_(LoadConfig(model)),
        sites_(WeightSites(config_)),
        files_(OpenSplit(model, config_)),
        plan_(PlanOfWeights(job, files_, config_)),
        provenance_(ProvenanceOf(files_, model, job.model_sha256)),
        parts_(parts) {
    TARE_CHECK(parts_ != nullptr || !method_.RoundsByCalibration());
    summary_.matrices = CheckRounding(job, files_, config_);
    provenance_.plan = job.plan.canonical();
    provenance_.plan_hash = job.plan.hash();
    if (job.plan.HasStaticScales()) {
      AddStep(provenance_, "", "static scales of statistics sha256 " + Sha256OfFile(job.statistics));
    }
    if (method_.RoundsByCalibration()) {
      const bool known = model == job.model && !job.model_sha256.empty();
      calibrated_ = std::make_unique<Calibrated>(job, model, known ? WeightReading::kKnown : WeightReading::kWhole);
    }
    AddStep(provenance_, method_.RoundingText(), calibrated_ ? calibrated_->text.provenance : "");
    if (calibrated_) summary_.calibration = calibrated_->text.files;
  }

  QuantizeSummary Run(const std::filesystem::path& path, const Progress& progress) {
    if (calibrated_) PassLayers(progress);  // hours; only then is the result begun
    QuantizedCheckpointWriter out(path, provenance_);
    out.AddFile("config.json", config_text_);
    for (const char* name : kTokenizerFiles) {
      if (const auto text = CheckpointText(model_, name)) out.AddFile(name, *text);
    }
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
  std::string Where(const std::string& tensor) const { return Formatted("{}: tensor '{}'", where_, tensor); }

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
      summary_.bytes_before += StoredBytes(name);
      if (found->second.layer) return;
      Add(name, QuantizeByRule(Stored(name), *rule, Where(name)).view(), *rule, out);
    }
    files_.Release(name);
  }

  void AddLayer(int layer, QuantizedCheckpointWriter& out) {
    std::optional<QuantizedCheckpoint> part;
    if (calibrated_) part.emplace(Part(layer));
    ForEachMatrix(layer, [&](const LinearLayer&, const std::string& name, const Rule& rule) {
      if (part) {
        Add(name, part->matrices().at(name), rule, out);
      } else {
        Add(name, QuantizeByRule(Stored(name), rule, Where(name)).view(), rule, out);
      }
    });
  }

  // A batch at a time: of a large model, one takes seconds.
  void PassLayers(const Progress& progress) {
    int64_t done = 0, total = 0;
    for (int layer = 0; layer < config_.layers; ++layer) total += BatchesOf(layer);
    on_batch_ = [&] { Report(progress, ++done, total, "batches"); };
    calibrated_->calibration.OnBatch(on_batch_);
    for (int layer = 0; layer < config_.layers; ++layer) {
      ThrowIfStopped();
      PassLayer(layer);
    }
  }

  // How many batches pass a layer, or a part of it.
  int64_t BatchesOf(int layer) const {
    const auto batches = static_cast<int64_t>(calibrated_->calibration.batches());
    if (!LearnsLayers()) return batches * PassesOf(layer);
    return (Advances(layer) ? batches : 0) + (Learns(layer) ? LearningBatches() : 0);
  }
  int64_t LearningBatches() const {
    std::vector<int64_t> tokens;
    for (size_t i = 0; i < calibrated_->calibration.batches(); ++i)
      tokens.push_back(calibrated_->calibration.batch(i).Rows());
    return tare::LearningBatches(tokens, method_.learning_steps, method_.learning_seed);
  }

  // How often the calibration passes it.
  int64_t PassesOf(int layer) const {
    std::set<Site> inputs;
    for (const LinearLayer& linear : LinearLayersOf(config_, layer)) {
      if (plan_.RuleAt(linear.WeightKey()) != nullptr) inputs.insert(InputOf(*linear.place));
    }
    int64_t passes = Advances(layer) ? 1 : 0;
    if (parts_->Has(layer)) return passes;
    for (const Site input : inputs) passes += IsOfExperts(input) ? PassesOfExperts(input) : 1;
    return passes;
  }

  bool LearnsLayers() const { return method_.rounding == QuantizeMethod::Rounding::kAutoRound; }

  // Whether the layer's rounding is still to be learned.
  bool Learns(int layer) const { return !parts_->Has(layer) && Rounds(layer); }
  bool Rounds(int layer) const {
    return std::ranges::any_of(LinearLayersOf(config_, layer),
                               [&](const LinearLayer& linear) { return plan_.RuleAt(linear.WeightKey()) != nullptr; });
  }

  int64_t PassesOfExperts(Site input) const {
    const int at_once = AtOnce(input, 0);
    return (config_.experts + at_once - 1) / at_once;
  }

  // Experts from the first whose moments, and those of the stored model's inputs, are in memory together.
  int AtOnce(Site input, int first) const { return ExpertsAtOnce(config_, input, first, calibrated_->exact ? 2 : 1); }

  // Nobody sees what the last layer makes; but how many tokens reach its experts is said.
  bool Advances(int layer) const { return layer + 1 < config_.layers || config_.experts > 0; }

  // Rounds the layer, unless an earlier run has, and takes the calibration through its codes.
  void PassLayer(int layer) {
    if (LearnsLayers() && (layer + 1 < config_.layers || Learns(layer))) calibrated_->exact->calibration.Advance(layer);
    if (!parts_->Has(layer)) RoundLayer(layer);
    const QuantizedCheckpoint part = Part(layer);
    if (!Advances(layer)) return;
    ForEachMatrix(layer, [&](const LinearLayer& linear, const std::string& name, const Rule&) {
      calibrated_->model.UseCodes(linear, part.matrices().at(name));
    });
    const std::vector<int64_t> reached = calibrated_->calibration.Advance(layer);
    if (!reached.empty()) summary_.experts.push_back({layer, reached});
    if (calibrated_->exact && !LearnsLayers() && layer + 1 < config_.layers)
      calibrated_->exact->calibration.Advance(layer);
    calibrated_->model.DropCodes(layer);
  }

  // A layer that is done, every matrix of it as this job makes them.
  QuantizedCheckpoint Part(int layer) {
    QuantizedCheckpoint part = parts_->Layer(layer, provenance_, config_text_);
    ForEachMatrix(layer, [&](const LinearLayer&, const std::string& name, const Rule& rule) {
      const WeightMatrix stored = Stored(name);
      const auto found = part.matrices().find(name);
      if (found == part.matrices().end() || found->second.out != stored.out || found->second.in != stored.in ||
          found->second.format != rule.format || found->second.group != GroupOf(rule.granularity, stored.in) ||
          found->second.rotation != rule.options.Rotation(stored.in))
        Fail("{}: the saved layer {} does not match what the plan makes of '{}'; try without --resume", where_, layer,
             name);
    });
    return part;
  }

  // Into a part, weights with the same input together, in a layer's order: each input is of the codes before it.
  void RoundLayer(int layer) {
    parts_->Keep(layer, provenance_, config_text_, [&](QuantizedCheckpointWriter& part) {
      if (LearnsLayers()) return LearnLayer(layer, part);
      std::list<QuantizedMatrixBuffer> experts;  // in use until the layer is done
      for (const Site input : kCalibratedInputs) {
        if (IsOfExperts(input)) {
          RoundExperts(layer, input, part, experts);
        } else {
          RoundInput(layer, input, part);
        }
      }
      calibrated_->model.DropCodes(layer);
    });
  }

  // All of its matrices together, by the states after the layer in the stored model, which has passed it.
  void LearnLayer(int layer, QuantizedCheckpointWriter& part) {
    if (!Rounds(layer)) return;
    const CalibrationPass &reached = calibrated_->calibration, &exact = calibrated_->exact->calibration;
    std::vector<LayerTokens> tokens;
    for (size_t i = 0; i < reached.batches(); ++i)
      tokens.push_back({&reached.batch(i), reached.StreamAt(i), exact.StreamAt(i)});
    LearnedLayer learned(config_, calibrated_->model.layers()[static_cast<size_t>(layer)], layer, plan_, where_);
    learned.Learn(tokens, method_.learning_steps, method_.learning_seed, on_batch_);
    for (const LearnedMatrix& m : learned.matrices())
      part.AddMatrix(m.linear.Tensor(config_) + ".weight", m.codes.view(), m.rule->granularity);
  }

  CalibrationPass* Exact() { return calibrated_->exact ? &calibrated_->exact->calibration : nullptr; }

  void RoundInput(int layer, Site input, QuantizedCheckpointWriter& part) {
    std::optional<CalibratedRounding> rounding;  // where a weight with this input is rounded
    ForEachMatrix(layer, [&](const LinearLayer& linear, const std::string& name, const Rule& rule) {
      if (InputOf(*linear.place) != input) return;
      if (!rounding)
        rounding.emplace(method_, calibrated_->calibration.MomentsOf(layer, input, Exact()), Together(layer, input),
                         rule.options.Rotation(Stored(name).in), Where(name));
      const QuantizedMatrixBuffer matrix = rounding->Round(Stored(name), linear.place->weight, rule, Where(name));
      part.AddMatrix(name, matrix.view(), rule.granularity);
      calibrated_->model.UseCodes(linear, matrix.view());
    });
  }

  // The most inputs that share a code in any of the weights with this input.
  int64_t Together(int layer, Site input) const {
    int together = 1;
    for (const LinearLayer& linear : LinearLayersOf(config_, layer)) {
      const Rule* const rule = plan_.RuleAt(linear.WeightKey());
      if (rule != nullptr && InputOf(*linear.place) == input)
        together = std::max(together, Info(rule->format).together);
    }
    return together;
  }

  // Experts one after another, each with the tokens that reach it; to nearest where none does.
  void RoundExperts(int layer, Site input, QuantizedCheckpointWriter& part, std::list<QuantizedMatrixBuffer>& used) {
    std::vector<SecondMoments> moments;          // of experts from `first`
    std::optional<CalibratedRounding> rounding;  // for one of them
    int first = 0, rounding_for = -1;
    const auto round = [&](const LinearLayer& linear, const std::string& name, const Rule& rule) {
      const int expert = *linear.expert;
      if (expert >= first + std::ssize(moments)) {
        first = expert;
        moments = calibrated_->calibration.MomentsOfExperts(layer, input, first, AtOnce(input, first), Exact());
      }
      const SecondMoments& m = moments[static_cast<size_t>(expert - first)];
      if (rounding_for != expert) {
        rounding.reset();
        if (m.tokens > 0)
          rounding.emplace(method_, m, Together(layer, input), rule.options.Rotation(m.in), Where(name));
        rounding_for = expert;
      }
      const std::string where = Where(name);
      const Site weight = linear.place->weight;
      const QuantizedMatrixBuffer& matrix = used.emplace_back(
          rounding ? rounding->Round(Stored(name), weight, rule, where) : QuantizeByRule(Stored(name), rule, where));
      part.AddMatrix(name, matrix.view(), rule.granularity);
      calibrated_->model.UseCodes(linear, matrix.view());
    };
    std::vector<LinearLayer> all = LinearLayersOf(config_, layer);
    std::erase_if(all, [&](const LinearLayer& linear) { return linear.place->input != input; });
    std::ranges::stable_sort(all, {}, &LinearLayer::expert);
    for (const LinearLayer& linear : all) Visit(linear, round);
  }

  using ForMatrix = std::function<void(const LinearLayer&, const std::string& name, const Rule&)>;

  // Those of the layer that the plan quantizes.
  void ForEachMatrix(int layer, const ForMatrix& body) {
    for (const LinearLayer& linear : LinearLayersOf(config_, layer)) Visit(linear, body);
  }

  void Visit(const LinearLayer& linear, const ForMatrix& body) {
    const std::string name = linear.Tensor(config_) + ".weight";
    const Rule* rule = plan_.RuleAt(linear.WeightKey());
    if (rule == nullptr) return;
    body(linear, name, *rule);
    files_.Release(name);
  }

  int64_t StoredBytes(const std::string& name) const {
    const ForeignMatrix* const matrix = files_.FindForeign(name);
    return matrix != nullptr ? matrix->bytes() : static_cast<int64_t>(files_.Find(name)->bytes.size());
  }

  WeightMatrix Stored(const std::string& name) const {
    const TensorView* tensor = files_.Find(name);
    if (tensor != nullptr && tensor->shape.size() != 2)
      Fail("{}: got a tensor of {} dimensions, expected a matrix", Where(name), tensor->shape.size());
    return StoredMatrix(files_, name, Where(name));
  }

  void Add(const std::string& name, const QuantizedMatrix& matrix, const Rule& rule, QuantizedCheckpointWriter& out) {
    const WeightMatrix stored = Stored(name);
    AddError(stored, matrix, Where(name));
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

  QuantizeMethod method_;
  std::filesystem::path model_;
  std::string where_;
  std::string config_text_;  // config.json, which the parts of a job share
  ModelConfig config_;
  std::map<std::string, SiteKey> sites_;
  Checkpoint files_;
  ResolvedPlan plan_;
  Provenance provenance_;
  LayerParts* parts_;
  QuantizeSummary summary_;
  Squares sums_;
  int64_t code_bytes_ = 0;
  std::unique_ptr<Calibrated> calibrated_;
  std::function<void()> on_batch_;
};

}  // namespace

QuantizeSummary RoundLayers(const QuantizeJob& job, const std::filesystem::path& model, LayerParts* parts,
                            const Progress& progress) {
  return Job(job, model, parts).Run(job.out, progress);
}

}  // namespace tare
