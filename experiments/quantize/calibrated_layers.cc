// SPDX-License-Identifier: Apache-2.0
// CalibratedRounding, and CalibratedLayers: the run, counts of batches, passes, output errors, saved parts, rounding.
#include "experiments/quantize/calibrated_layers.h"

#include <algorithm>
#include <set>

#include "experiments/model/model.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"

namespace tare {
namespace {

void NearestCodes(const ReadRow& read, const GroupEnds& ends, QuantizedMatrixBuffer& matrix) {
  ParallelFor(static_cast<size_t>(matrix.view().out), [&](size_t row, int) {
    thread_local std::vector<float> values;
    values.resize(static_cast<size_t>(matrix.view().in));
    read(static_cast<int64_t>(row), values.data());
    RoundRowToNearest(values.data(), ends, matrix, static_cast<int64_t>(row));
  });
}

Model& Shown(Model& model, const CalibrationWindows& text) {
  model.Show(text.images);
  return model;
}

}  // namespace

CalibratedRounding::CalibratedRounding(const QuantizeMethod& method, SharedInput input) {
  const auto take = [](auto& to, auto& from) {
    if (from) to = std::move(from);
  };
  // Ranges last: they keep the moments, which the others need only while they factor them.
  for (const std::optional<Step>* step : {&method.codes, &method.better, &method.weights}) {
    if (!step->has_value() || !(*step)->on_input) continue;
    InputRounding own = (*step)->on_input(input);
    take(by_.aim, own.aim), take(by_.ends, own.ends), take(by_.round, own.round), take(by_.improve, own.improve);
  }
  if (!by_.round) by_.round = NearestCodes;
}

QuantizedMatrixBuffer CalibratedRounding::Round(const WeightMatrix& stored, Site weight, const Rule& rule,
                                                const std::string& where) const {
  AlignedBuffer<char> memory;
  WeightMatrix aimed = stored;  // what the codes should be near
  if (by_.aim) {
    aimed = InFloat(stored, Math::kF32, memory, where);
    by_.aim(stored.out, reinterpret_cast<float*>(memory.data()));
  }
  const ReadRow read = RowsToRound(rule, stored.in, [&](int64_t row, float* y) { RowAsFloat(aimed, row, y); });
  try {
    QuantizedMatrixBuffer matrix = MatrixFor(rule, stored.out, stored.in, read);
    by_.round(read, EndsFor(weight, rule, read, matrix), matrix);
    if (by_.improve) by_.improve(read, matrix);
    return matrix;
  } catch (const Error& error) {
    Fail("{}: {}", where, error.what());
  }
}

// A step's, unless the rule chooses by itself.
GroupEnds CalibratedRounding::EndsFor(Site weight, const Rule& rule, const ReadRow& read,
                                      const QuantizedMatrixBuffer& matrix) const {
  if (by_.ends && !rule.options.mse) {
    if (GroupEnds ends = by_.ends(weight, read, matrix.view())) return ends;
  }
  return EndsBy(rule.options.mse ? ClipChoice::kLeastSquares : ClipChoice::kAbsmax, matrix.view().format,
                matrix.tensor_absmax());
}

CalibratedLayers::CalibratedLayers(const QuantizeMethod& method, const std::filesystem::path& model,
                                   WeightReading reading, const CalibrationWindows& text, const LayerMatrices& matrices,
                                   LayerParts& parts, const Provenance& provenance, const std::string& config_text)
    : method_(method),
      provenance_(provenance),
      config_text_(config_text),
      matrices_(matrices),
      config_(matrices.config()),
      parts_(parts),
      model_(model, reading),
      stored_model_(model, WeightReading::kKnown),
      states_(FolderOf(parts.folder())),
      calibration_(Shown(model_, text), text.sequences, states_),
      measured_(calibration_.batches() / 2),
      stored_(Shown(stored_model_, text), text.sequences, states_,
              method.ComparesWithStored() ? std::nullopt : std::optional(measured_)) {
  if (method_.RoundsByCalibration()) NoticeFewTokens(text, config_);
}

// A batch at a time: of a large model, one takes seconds.
std::vector<ReachedExperts> CalibratedLayers::Run(const Progress& progress) {
  int64_t done = 0, total = 0;
  for (int layer = 0; layer < config_.layers; ++layer) total += BatchesOf(layer);
  on_batch_ = [&] { Report(progress, ++done, total, "batches"); };
  calibration_.OnBatch(on_batch_);
  stored_.OnBatch(on_batch_);
  for (int layer = 0; layer < config_.layers; ++layer) {
    ThrowIfStopped();
    PassLayer(layer);
  }
  calibration_.OnBatch({});
  stored_.OnBatch({});
  on_batch_ = {};
  return std::move(reached_);
}

// How many batches pass a layer, or a part of it.
int64_t CalibratedLayers::BatchesOf(int layer) const {
  const auto batches =
      static_cast<int64_t>(calibration_.batches() * static_cast<size_t>(PassesOf(layer)) + stored_.batches());
  if (!RoundsTogetherIn(layer)) return batches;
  std::vector<int64_t> tokens;
  for (size_t i = 0; i < calibration_.batches(); ++i) tokens.push_back(calibration_.batch(i).Rows());
  return batches + Together()->batches(tokens);
}

// How often the whole calibration passes it in the rounded model.
int64_t CalibratedLayers::PassesOf(int layer) const {
  int64_t passes = 1;
  if (Together() != nullptr || parts_.Has(layer)) return passes;
  std::set<Site> inputs;
  for (const LinearLayer& linear : LinearLayersOf(config_, layer)) {
    if (matrices_.RuleFor(linear) != nullptr) inputs.insert(InputOf(*linear.place));
  }
  for (const Site input : inputs) {
    const int at_once = IsOfExperts(input) ? ExpertsAtOnce(config_, input, 0, method_.ComparesWithStored() ? 2 : 1) : 1,
              all = IsOfExperts(input) ? config_.experts : 1;
    passes += (all + at_once - 1) / at_once;
  }
  return passes;
}

// Rounds the layer, unless an earlier run has, and takes the calibration through its codes.
void CalibratedLayers::PassLayer(int layer) {
  if (Together() != nullptr) stored_.Advance(layer);  // what the layer as a whole is compared with
  if (!parts_.Has(layer)) RoundLayer(layer);
  const QuantizedCheckpoint part = Part(layer);
  matrices_.ForEach(layer, [&](const LinearLayer& linear, const std::string& name, const Rule&) {
    model_.UseCodes(linear, part.matrices().at(name));
  });
  const std::vector<int64_t> reached = calibration_.Advance(layer);
  if (!reached.empty()) reached_.push_back({layer, reached});
  if (Together() == nullptr) stored_.Advance(layer);
  model_.DropCodes(layer);
  AddOutputErrors();
}

// Relative to each token's own state: those of the first token can be a thousand times as large as all others.
void CalibratedLayers::AddOutputErrors() {
  const float* const rounded = calibration_.StreamAt(measured_);
  const float* const exact = stored_.StreamAt(method_.ComparesWithStored() ? measured_ : 0);
  const auto width = static_cast<size_t>(config_.StreamWidth());
  for (size_t i = 0; i < calibration_.batch(measured_).tokens.size() * width; i += width) {
    const Squares token = SquaresOf({exact + i, width}, {rounded + i, width});
    if (token.size == 0) continue;
    output_error_ += token.error / token.size;
    ++compared_;
  }
}

QuantizedCheckpoint CalibratedLayers::Part(int layer) const {
  QuantizedCheckpoint part = parts_.Layer(layer, provenance_, config_text_);
  matrices_.ForEach(layer, [&](const LinearLayer&, const std::string& name, const Rule& rule) {
    const WeightMatrix stored = matrices_.Stored(name);
    const auto found = part.matrices().find(name);
    if (found == part.matrices().end() || found->second.out != stored.out || found->second.in != stored.in ||
        found->second.format != rule.format || found->second.group != GroupOf(rule.granularity, stored.in) ||
        found->second.rotation != rule.options.Rotation(stored.in))
      Fail("{}: the saved layer {} does not match what the plan makes of '{}'; try --fresh", matrices_.where(), layer,
           name);
  });
  return part;
}

// Into a part, weights with the same input together, in a layer's order: each input is of the codes before it.
void CalibratedLayers::RoundLayer(int layer) {
  parts_.Keep(layer, provenance_, config_text_, [&](QuantizedCheckpointWriter& part) {
    if (Together() != nullptr) return RoundTogether(layer, part);
    std::list<QuantizedMatrixBuffer> experts;  // in use until the layer is done
    for (const Site input : kCalibratedInputs) RoundInput(layer, input, part, experts);
    model_.DropCodes(layer);
  });
}

// All of its matrices together, by the states after the layer in the stored model, which has passed it.
void CalibratedLayers::RoundTogether(int layer, QuantizedCheckpointWriter& part) {
  if (!matrices_.RoundsIn(layer)) return;
  LayerToRound all{.config = config_,
                   .stored = model_.layers()[static_cast<size_t>(layer)],
                   .layer = layer,
                   .plan = matrices_.plan(),
                   .where = matrices_.where(),
                   .on_batch = on_batch_};
  for (size_t i = 0; i < calibration_.batches(); ++i)
    all.batches.push_back({&calibration_.batch(i), calibration_.StreamAt(i), stored_.StreamAt(i)});
  Together()->round(all, [&](const LinearLayer& linear, const Rule& rule, const QuantizedMatrix& codes) {
    part.AddMatrix(linear.Tensor(config_) + ".weight", codes, rule.granularity);
  });
}

// The most inputs that share a code in any of the weights with this input.
int64_t CalibratedLayers::SharingCode(int layer, Site input) const {
  int together = 1;
  for (const LinearLayer& linear : LayersWithInput(input, config_, layer)) {
    if (const Rule* const rule = matrices_.RuleFor(linear)) together = std::max(together, Info(rule->format).together);
  }
  return together;
}

// Experts one after another, each with the tokens that reach it; to nearest where none does.
void CalibratedLayers::RoundInput(int layer, Site input, QuantizedCheckpointWriter& part,
                                  std::list<QuantizedMatrixBuffer>& of_experts) {
  InputMoments moments(calibration_, layer, input, method_.ComparesWithStored() ? &stored_ : nullptr);
  std::optional<CalibratedRounding> rounding;  // for all, or for one expert
  bool begun = false;
  std::optional<int> rounding_for;  // which expert
  const auto round = [&](const LinearLayer& linear, const std::string& name, const Rule& rule) {
    const std::string where = matrices_.Where(name);
    const SecondMoments& m = moments.Of(linear.expert);
    if (!begun || rounding_for != linear.expert) {
      rounding.reset();
      if (m.tokens > 0 && method_.RoundsByCalibration())
        rounding.emplace(method_, SharedInput(m, SharingCode(layer, input), rule.options.Rotation(m.in), where));
      begun = true, rounding_for = linear.expert;
    }
    const WeightMatrix stored = matrices_.Stored(name);
    const QuantizedMatrixBuffer& matrix = of_experts.emplace_back(
        rounding ? rounding->Round(stored, linear.place->weight, rule, where) : matrices_.Alone(linear, name, rule));
    part.AddMatrix(name, matrix.view(), rule.granularity);
    model_.UseCodes(linear, matrix.view());
    if (!linear.expert) of_experts.pop_back();  // the model has its values
  };
  std::vector<LinearLayer> all = LayersWithInput(input, config_, layer);
  std::ranges::stable_sort(all, {}, &LinearLayer::expert);
  for (const LinearLayer& linear : all) matrices_.Visit(linear, round);
}

}  // namespace tare
