// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/calibrated_layers.h"

#include <algorithm>
#include <optional>
#include <set>

#include "experiments/model/model.h"
#include "experiments/quantize/calibrated_rounding.h"
#include "quant/base/error.h"

namespace tare {
namespace {

Model& Shown(Model& model, const CalibrationWindows& text) {
  model.Show(text.images);
  return model;
}

}  // namespace

struct CalibratedLayers::Stored {
  Stored(const std::filesystem::path& path, const CalibrationWindows& text)
      : model(path, WeightReading::kKnown), pass(Shown(model, text), text.sequences) {}

  Model model;
  CalibrationPass pass;
};

CalibratedLayers::CalibratedLayers(const QuantizeMethod& method, const std::filesystem::path& model,
                                   WeightReading reading, const CalibrationWindows& text, const LayerMatrices& matrices,
                                   LayerParts& parts)
    : method_(method),
      matrices_(matrices),
      config_(matrices.config()),
      parts_(parts),
      model_(model, reading),
      calibration_(Shown(model_, text), text.sequences) {
  NoticeFewTokens(text, config_);
  if (method_.ComparesWithStored()) stored_ = std::make_unique<Stored>(model, text);
}
CalibratedLayers::~CalibratedLayers() = default;

// A batch at a time: of a large model, one takes seconds.
std::vector<ReachedExperts> CalibratedLayers::Run(const Provenance& provenance, const std::string& config_text,
                                                  const Progress& progress) {
  provenance_ = provenance;
  config_text_ = config_text;
  int64_t done = 0, total = 0;
  for (int layer = 0; layer < config_.layers; ++layer) total += BatchesOf(layer);
  on_batch_ = [&] { Report(progress, ++done, total, "batches"); };
  calibration_.OnBatch(on_batch_);
  if (stored_) stored_->pass.OnBatch(on_batch_);
  for (int layer = 0; layer < config_.layers; ++layer) {
    ThrowIfStopped();
    PassLayer(layer);
  }
  calibration_.OnBatch({});
  if (stored_) stored_->pass.OnBatch({});
  on_batch_ = {};
  return std::move(reached_);
}

// How many batches pass a layer, or a part of it.
int64_t CalibratedLayers::BatchesOf(int layer) const {
  const auto batches = static_cast<int64_t>(calibration_.batches());
  return batches * PassesOf(layer) + (RoundsTogetherIn(layer) ? BatchesTogether() : 0);
}

int64_t CalibratedLayers::BatchesTogether() const {
  std::vector<int64_t> tokens;
  for (size_t i = 0; i < calibration_.batches(); ++i) tokens.push_back(calibration_.batch(i).Rows());
  return Together()->batches(tokens);
}

// How often the whole calibration passes it, in the rounded model and in the stored one.
int64_t CalibratedLayers::PassesOf(int layer) const {
  int64_t passes = (Advances(layer) ? 1 : 0) + (StoredAdvances(layer) ? 1 : 0);
  if (Together() != nullptr || parts_.Has(layer)) return passes;
  std::set<Site> inputs;
  for (const LinearLayer& linear : LinearLayersOf(config_, layer)) {
    if (matrices_.RuleFor(linear) != nullptr) inputs.insert(InputOf(*linear.place));
  }
  for (const Site input : inputs) passes += IsOfExperts(input) ? PassesOfExperts(input) : 1;
  return passes;
}

int64_t CalibratedLayers::PassesOfExperts(Site input) const {
  const int at_once = ExpertsAtOnce(config_, input, 0, stored_ ? 2 : 1);
  return (config_.experts + at_once - 1) / at_once;
}

// Nobody sees what the last layer makes; but how many tokens reach its experts is said.
bool CalibratedLayers::Advances(int layer) const { return layer + 1 < config_.layers || config_.experts > 0; }

// The stored model's states after a layer are what the layer as a whole, or the next layer, is compared with.
bool CalibratedLayers::StoredAdvances(int layer) const {
  return stored_ != nullptr && (layer + 1 < config_.layers || RoundsTogetherIn(layer));
}

// Rounds the layer, unless an earlier run has, and takes the calibration through its codes.
void CalibratedLayers::PassLayer(int layer) {
  const bool stored_advances = StoredAdvances(layer);
  if (Together() != nullptr && stored_advances) stored_->pass.Advance(layer);
  if (!parts_.Has(layer)) RoundLayer(layer);
  const QuantizedCheckpoint part = Part(layer);
  if (!Advances(layer)) return;
  matrices_.ForEach(layer, [&](const LinearLayer& linear, const std::string& name, const Rule&) {
    model_.UseCodes(linear, part.matrices().at(name));
  });
  const std::vector<int64_t> reached = calibration_.Advance(layer);
  if (!reached.empty()) reached_.push_back({layer, reached});
  if (Together() == nullptr && stored_advances) stored_->pass.Advance(layer);
  model_.DropCodes(layer);
}

QuantizedCheckpoint CalibratedLayers::Part(int layer) const {
  QuantizedCheckpoint part = parts_.Layer(layer, provenance_, config_text_);
  matrices_.ForEach(layer, [&](const LinearLayer&, const std::string& name, const Rule& rule) {
    const WeightMatrix stored = matrices_.Stored(name);
    const auto found = part.matrices().find(name);
    if (found == part.matrices().end() || found->second.out != stored.out || found->second.in != stored.in ||
        found->second.format != rule.format || found->second.group != GroupOf(rule.granularity, stored.in) ||
        found->second.rotation != rule.options.Rotation(stored.in))
      Fail("{}: the saved layer {} does not match what the plan makes of '{}'; try without --resume", matrices_.where(),
           layer, name);
  });
  return part;
}

// Into a part, weights with the same input together, in a layer's order: each input is of the codes before it.
void CalibratedLayers::RoundLayer(int layer) {
  parts_.Keep(layer, provenance_, config_text_, [&](QuantizedCheckpointWriter& part) {
    if (Together() != nullptr) return RoundTogether(layer, part);
    std::list<QuantizedMatrixBuffer> experts;  // in use until the layer is done
    for (const Site input : kCalibratedInputs) {
      if (IsOfExperts(input)) {
        RoundExperts(layer, input, part, experts);
      } else {
        RoundInput(layer, input, part);
      }
    }
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
                   .batches = {},
                   .on_batch = on_batch_};
  for (size_t i = 0; i < calibration_.batches(); ++i)
    all.batches.push_back({&calibration_.batch(i), calibration_.StreamAt(i), stored_->pass.StreamAt(i)});
  Together()->round(all, [&](const LinearLayer& linear, const Rule& rule, const QuantizedMatrix& codes) {
    part.AddMatrix(linear.Tensor(config_) + ".weight", codes, rule.granularity);
  });
}

CalibrationPass* CalibratedLayers::StoredPass() { return stored_ ? &stored_->pass : nullptr; }

void CalibratedLayers::RoundInput(int layer, Site input, QuantizedCheckpointWriter& part) {
  std::optional<CalibratedRounding> rounding;  // where a weight with this input is rounded
  matrices_.ForEach(layer, [&](const LinearLayer& linear, const std::string& name, const Rule& rule) {
    if (InputOf(*linear.place) != input) return;
    const WeightMatrix stored = matrices_.Stored(name);
    const std::string where = matrices_.Where(name);
    if (!rounding)
      rounding.emplace(method_, SharedInput(calibration_.MomentsOf(layer, input, StoredPass()),
                                            SharingCode(layer, input), rule.options.Rotation(stored.in), where));
    const QuantizedMatrixBuffer matrix = rounding->Round(stored, linear.place->weight, rule, where);
    part.AddMatrix(name, matrix.view(), rule.granularity);
    model_.UseCodes(linear, matrix.view());
  });
}

// The most inputs that share a code in any of the weights with this input.
int64_t CalibratedLayers::SharingCode(int layer, Site input) const {
  int together = 1;
  for (const LinearLayer& linear : LinearLayersOf(config_, layer)) {
    const Rule* const rule = matrices_.RuleFor(linear);
    if (rule != nullptr && InputOf(*linear.place) == input) together = std::max(together, Info(rule->format).together);
  }
  return together;
}

// Experts one after another, each with the tokens that reach it; to nearest where none does.
void CalibratedLayers::RoundExperts(int layer, Site input, QuantizedCheckpointWriter& part,
                                    std::list<QuantizedMatrixBuffer>& used) {
  ExpertMoments moments(calibration_, layer, input, StoredPass());
  std::optional<CalibratedRounding> rounding;  // for one of them
  int rounding_for = -1;
  const auto round = [&](const LinearLayer& linear, const std::string& name, const Rule& rule) {
    const int expert = *linear.expert;
    const SecondMoments& m = moments.Of(expert);
    const std::string where = matrices_.Where(name);
    if (rounding_for != expert) {
      rounding.reset();
      if (m.tokens > 0)
        rounding.emplace(method_, SharedInput(m, SharingCode(layer, input), rule.options.Rotation(m.in), where));
      rounding_for = expert;
    }
    const WeightMatrix stored = matrices_.Stored(name);
    const QuantizedMatrixBuffer& matrix = used.emplace_back(
        rounding ? rounding->Round(stored, linear.place->weight, rule, where) : QuantizeByRule(stored, rule, where));
    part.AddMatrix(name, matrix.view(), rule.granularity);
    model_.UseCodes(linear, matrix.view());
  };
  std::vector<LinearLayer> all = LinearLayersOf(config_, layer);
  std::erase_if(all, [&](const LinearLayer& linear) { return linear.place->input != input; });
  std::ranges::stable_sort(all, {}, &LinearLayer::expert);
  for (const LinearLayer& linear : all) matrices_.Visit(linear, round);
}

}  // namespace tare
