// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/quantize.h"

#include "experiments/model/config/config.h"
#include "experiments/model/linear/weights.h"
#include "experiments/model/model.h"
#include "experiments/quantize/equivalent_weights.h"
#include "experiments/quantize/provenance.h"
#include "experiments/quantize/round_layers.h"
#include "quant/base/message.h"
#include "quant/file/sha256.h"

namespace tare {
namespace {

namespace fs = std::filesystem;

// Refuses a method that needs a calibration text, where there is none.
void CheckText(const QuantizeJob& job) {
  const QuantizeMethod& m = job.method;
  const Step* const change = m.weights ? &*m.weights : nullptr;
  const bool has_another_source = change != nullptr && !change->without_text.empty();
  if (m.RoundsByCalibration() || (change != nullptr && change->reads_text && !has_another_source))
    FailUsage("--calibrate: got no text for {}, expected one; try --calibrate TEXT", m.Text());
  if (has_another_source && job.statistics.empty())
    FailUsage("--calibrate: got no text for {}, expected one; try --calibrate TEXT, or {}",
              change->text.substr(0, change->text.find(':')), change->without_text);
}

// Checks that do not need the model.
void CheckJob(const QuantizeJob& job) {
  const QuantizeMethod& m = job.method;
  if (!m.codes && !job.plan.empty() && !m.weights->reads_plan)
    FailUsage("--method: got {} alone, which makes no codes, with a plan; try {}+rtn, or without a plan", m.Text(),
              m.Text());
  if (!job.imatrix.empty() && (m.weights || m.RoundsByCalibration()))
    FailUsage("--imatrix: got --method {}, expected rtn, whose +mse it weighs", m.Text());
  if (job.calibration.empty()) CheckText(job);
  const bool keeps_clips = job.plan.HasStaticScales();
  if (keeps_clips && m.weights)
    FailUsage(
        "--method {}: static scales must be those of the weights that are rounded; try it in two steps, {} --out "
        "R.h5, tare stats R.h5, and then R.h5 with --stats",
        m.EquivalentText(), m.EquivalentText());
  if (keeps_clips && job.statistics.empty())
    FailUsage("--stats: got none for the plan '{}', expected one for +static; try --stats FILE.h5",
              job.plan.canonical());
  if (m.weights && !m.weights->without_text.empty() && !job.statistics.empty() && !job.calibration.empty() &&
      !m.RoundsByCalibration())
    FailUsage("--stats: got --calibrate too for {}, expected one of the two; try without --calibrate", m.Text());
  if (!job.statistics.empty() && !keeps_clips && !(m.weights && m.weights->takes_statistics))
    FailUsage("--stats: is for rules with +static, and for smoothquant with a given alpha; try --calibrate TEXT");
}

// The part of the calibration texts that the steps see, or that outputs are measured on; empty without any.
CalibrationWindows SeenTexts(const QuantizeJob& job, const ModelConfig& config) {
  const bool changes = job.method.weights && job.method.weights->reads_text && job.statistics.empty();
  if (job.calibration.empty() || (!changes && !job.method.codes)) return {};
  return CutCalibration(job.calibration, job.model, config, job.windows);
}

// The data that the step for weights used.
std::string SeenByChange(const QuantizeJob& job, const CalibrationWindows& text) {
  const Step& change = *job.method.weights;
  if (!change.reads_text) return "";
  if (!job.statistics.empty()) return Formatted("statistics sha256 {}", Sha256OfFile(job.statistics));
  return change.reads_plan ? Formatted("{} for {}", text.provenance, job.plan.canonical()) : text.provenance;
}

// Makes the checkpoint with equivalent weights. One that is there among the parts is from an earlier run of this job.
void Prepare(const QuantizeJob& job, const ModelFiles& model, const fs::path& out, const CalibrationWindows& text,
             const Progress& progress) {
  const Step& change = *job.method.weights;
  Provenance provenance = ProvenanceOf(model.files, job.model, job.model_sha256);
  const Plan nothing;
  provenance.plan = nothing.canonical();
  provenance.plan_hash = nothing.hash();
  AddStep(provenance, change.text, SeenByChange(job, text));
  if (out != job.out && fs::exists(out)) {
    const bool unties = change.turns_stream && model.config.tied_embeddings;
    const QuantizedCheckpoint prepared(out);
    RequireSameJob(out, prepared, provenance, unties ? UntiedConfigOf(job.model) : ConfigOf(job.model));
    prepared.Verify();
    return SayContinued(out.parent_path().string(), out.filename().string());
  }
  WriteEquivalent(model.files, job.model, change.change({job, text, model.files, model.config, out, progress}),
                  provenance, out, progress);
}

}  // namespace

QuantizeSummary Quantize(const QuantizeJob& asked, const Progress& progress) {
  CheckJob(asked);
  QuantizeJob job = asked;
  const QuantizeMethod& method = job.method;
  Checkpoint files(job.model);
  RefuseCodes(files, job.model);
  const int64_t bytes_before = files.total_bytes();
  ModelFiles model{job.model, LoadConfig(job.model), std::move(files)};
  for (const Step* step : method.Steps()) {
    if (step->check) step->check(model.config, job.plan);
  }
  const CalibrationWindows text = SeenTexts(job, model.config);  // which may be refused: before hours
  Model(job.model, WeightReading::kShapes);                      // refuses shapes other than those in config.json
  job.model_sha256 = ReadWhole(job.model, progress);
  SplitFused(model.config, model.files);
  if (!method.codes) {
    Prepare(job, model, job.out, text, progress);
    return {.bytes_before = bytes_before, .bytes_after = Checkpoint(job.out).total_bytes(), .calibration = text.files};
  }
  ModelConfig rounded = model.config;
  if (method.weights && method.weights->turns_stream) rounded.tied_embeddings = false;
  CheckRounding(job, model.files, rounded);
  if (!method.weights && text.sequences.empty())
    return RoundLayers(job, model, text, nullptr, progress);  // seconds: nothing worth keeping
  LayerParts parts(job.parts.empty() ? fs::path(job.out.string() + ".parts") : job.parts,
                   job.fresh ? EarlierParts::kDeleted : EarlierParts::kTakenUp);
  if (method.weights) {
    const fs::path prepared = parts.Prepared();
    Prepare(job, model, prepared, text, progress);
    model = {prepared, rounded, OpenSplit(prepared, rounded)};
  }
  QuantizeSummary summary = RoundLayers(job, model, text, &parts, progress);
  summary.bytes_before = bytes_before;
  summary.calibration = text.files;
  parts.Remove();
  return summary;
}

}  // namespace tare
