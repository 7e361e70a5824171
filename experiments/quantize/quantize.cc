// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/quantize.h"

#include "experiments/model/linear/fused_tensors.h"
#include "experiments/model/model.h"
#include "experiments/plan/static_source.h"
#include "experiments/quantize/awq_factors.h"
#include "experiments/quantize/equivalent_weights.h"
#include "experiments/quantize/learned_layer.h"
#include "experiments/quantize/learned_rotation.h"
#include "experiments/quantize/provenance.h"
#include "experiments/quantize/read_whole.h"
#include "experiments/quantize/round_layers.h"
#include "experiments/quantize/rounded_weights.h"
#include "experiments/quantize/smoothquant_factors.h"
#include "experiments/text/grammar.h"
#include "quant/base/error.h"
#include "quant/base/formatted.h"
#include "quant/base/interrupt.h"
#include "quant/file/atomic_folder.h"
#include "quant/file/sha256.h"

namespace tare {
namespace {

namespace fs = std::filesystem;
using Equivalent = QuantizeMethod::Equivalent;
using Rounding = QuantizeMethod::Rounding;

// Checks that do not need the model.
void CheckJob(const QuantizeJob& job) {
  const QuantizeMethod& m = job.method;
  const bool smooths = m.equivalent == Equivalent::kSmoothQuant, learns = m.equivalent == Equivalent::kCayley;
  if (m.equivalent == Equivalent::kNone && m.rounding == Rounding::kNone) Fail("quantize: got no method");
  if (m.rounding == Rounding::kNone && !job.plan.empty() && !learns && !(smooths && !m.alpha))
    Fail("quantize, plan '{}': {} alone makes no codes; try {}+rtn, or without a plan", job.plan.canonical(),
         m.EquivalentText(), m.EquivalentText());
  if (job.calibration.empty() && (m.RoundsByCalibration() || learns))
    Fail("quantize, {}: got no calibration text; try --calibrate TEXT", m.Text());
  if (smooths && job.calibration.empty() && job.statistics.empty())
    Fail("quantize, smoothquant: got no calibration text; try --calibrate TEXT, or --stats S.h5 and smoothquant:0.5");
  const bool keeps_clips = job.plan.HasStaticScales();
  if (keeps_clips && m.equivalent != Equivalent::kNone) {
    Fail(
        "quantize, {}: static scales must be those of the weights that are rounded; try it in two steps, {} --out "
        "R.h5, tare stats R.h5, and then R.h5 with --stats",
        m.EquivalentText(), m.EquivalentText());
  }
  if (keeps_clips && job.statistics.empty())
    Fail("quantize, plan '{}': +static needs statistics; try --stats FILE.h5", job.plan.canonical());
  if (smooths && !job.statistics.empty() && !job.calibration.empty() && !m.RoundsByCalibration())
    Fail("quantize, {}: got statistics and a calibration text, expected one; try without --calibrate", m.Text());
  for (const CalibrationTexts::Part& part : job.calibration.parts) {
    if (!std::filesystem::exists(part.file))
      Fail("{}: no such file; expected a calibration text or ids", part.file.string());
  }
  if (!job.statistics.empty() && !keeps_clips && !(smooths && m.alpha))
    Fail("quantize: --stats is for rules with +static, and for smoothquant with a given alpha; try --calibrate TEXT");
}

bool ChangesByText(const QuantizeJob& job) {
  return job.method.equivalent == Equivalent::kCayley ||
         (job.method.equivalent == Equivalent::kSmoothQuant && job.statistics.empty()) ||
         job.method.equivalent == Equivalent::kAwq;
}

// What the step for equivalent weights sees of the calibration texts; empty if it sees none.
CalibrationWindows SeenTexts(const QuantizeJob& job) {
  if (!ChangesByText(job)) return {};
  return CutCalibration(job.calibration, job.model, LoadConfig(job.model), job.windows);
}

// The data that the step for equivalent weights used.
std::string SeenByChange(const QuantizeJob& job, const CalibrationWindows& seen) {
  if (job.method.equivalent == Equivalent::kNone || job.method.equivalent == Equivalent::kHadamard) return "";
  if (!job.statistics.empty()) return Formatted("statistics sha256 {}", Sha256OfFile(job.statistics));
  return job.method.alpha ? seen.provenance : Formatted("{} for {}", seen.provenance, job.plan.canonical());
}

Provenance PreparedProvenance(const QuantizeJob& job, const Checkpoint& files, const CalibrationWindows& seen) {
  Provenance provenance = ProvenanceOf(files, job.model, job.model_sha256);
  const Plan nothing = Plan::Parse("");
  provenance.plan = nothing.canonical();
  provenance.plan_hash = nothing.hash();
  AddStep(provenance, job.method.EquivalentText(), SeenByChange(job, seen));
  return provenance;
}

// What turns the stream and values after the Hadamard rotations, learned on the checkpoint that these make: its norms
// are 1, so that linear layers read the stream as they turn it. It passes through a file in a folder beside `out`.
LearnedRotations LearnedTurns(const QuantizeJob& job, const Checkpoint& files, const fs::path& out,
                              const Progress& progress) {
  QuantizeJob start = job;
  start.method.equivalent = Equivalent::kHadamard;
  const EquivalentWeights first = Rotated(files, LoadConfig(job.model), job.method.seed);
  const AtomicFolder passing(out.string() + ".hadamard");
  const fs::path begun = passing.path() / "start.h5";
  WriteEquivalent(files, job.model, first, PreparedProvenance(start, files, {}), begun, progress);
  Model model(begun, WeightReading::kKnown);
  const CalibrationWindows text = CutCalibration(job.calibration, model, job.windows);
  NoticeFewTokens(text, model.config());
  RotatedError error(model, text.sequences, job.plan, progress);
  std::vector<std::vector<double>> turns = LearnRotation(error, job.method.rotation_steps, progress).rotations;
  LearnedRotations learned{.stream = std::move(turns.front())};
  learned.values.assign(std::make_move_iterator(turns.begin() + 1), std::make_move_iterator(turns.end()));
  return learned;
}

EquivalentWeights WeightsFor(const QuantizeJob& job, const Checkpoint& files, const fs::path& out,
                             const Progress& progress) {
  const ModelConfig config = LoadConfig(job.model);
  if (job.method.equivalent == Equivalent::kHadamard) return Rotated(files, config, job.method.seed);
  if (job.method.equivalent == Equivalent::kCayley)
    return Rotated(files, config, job.method.seed, LearnedTurns(job, files, out, progress));
  Model model(job.model, WeightReading::kKnown);
  if (!job.statistics.empty()) {
    const auto seen = ReadStatisticsOf(job.statistics, files.ContentHash(), files.ConfigHash());
    return Smoothed(files, config, SmoothingOf(model, *seen, *job.method.alpha));
  }
  const CalibrationWindows text = CutCalibration(job.calibration, model, job.windows);
  if (job.method.equivalent == Equivalent::kSmoothQuant)
    return Smoothed(files, config, SmoothingOf(model, text.sequences, job.plan, job.method.alpha, progress));
  NoticeFewTokens(text, config);
  return Smoothed(files, config, AwqScalingOf(model, text.sequences, job.plan, progress));
}

// Makes the checkpoint with equivalent weights; an existing one is from an earlier run of the same job.
void Prepare(const QuantizeJob& job, const std::filesystem::path& out, const CalibrationWindows& seen,
             const Progress& progress) {
  const Checkpoint files = OpenSplit(job.model, LoadConfig(job.model));
  const Provenance provenance = PreparedProvenance(job, files, seen);
  if (job.resume && std::filesystem::exists(out)) {
    const bool unties = job.method.Rotates() && LoadConfig(job.model).tied_embeddings;
    const QuantizedCheckpoint prepared(out);
    RequireSameJob(out, prepared, provenance, unties ? UntiedConfigOf(job.model) : ConfigOf(job.model));
    prepared.Verify();
    return;
  }
  WriteEquivalent(files, job.model, WeightsFor(job, files, out, progress), provenance, out, progress);
}

QuantizeSummary OnlyPrepared(const std::filesystem::path& model, const std::filesystem::path& out) {
  return {.bytes_before = Checkpoint(model).total_bytes(), .bytes_after = Checkpoint(out).total_bytes()};
}

// Of the shapes that config.json says, whole and finite, or refused.
std::string ReadModel(const QuantizeJob& job, const Progress& progress) {
  RefuseCodes(Checkpoint(job.model), job.model);
  const Model model(job.model, WeightReading::kShapes);
  return ReadWhole(job.model, progress);
}

QuantizeSummary RoundInParts(const QuantizeJob& job, const fs::path& model, LayerParts& parts,
                             const Progress& progress) try {
  return RoundLayers(job, model, &parts, progress);
} catch (const Error& error) {
  if (!StopRequested() || parts.Layers() == 0) throw;
  Fail("{}; {} keeps {}, and the same command with --resume continues", error.what(), parts.folder().string(),
       Counted(parts.Layers(), "layer"));
}

}  // namespace

QuantizeSummary Quantize(const QuantizeJob& asked, const Progress& progress) {
  CheckJob(asked);
  if (asked.method.equivalent == Equivalent::kAwq) CheckAwq(LoadConfig(asked.model), asked.plan);
  if (asked.method.equivalent == Equivalent::kCayley) CheckRotatedError(LoadConfig(asked.model), asked.plan);
  if (asked.method.rounding == Rounding::kAutoRound) CheckLearnedLayers(LoadConfig(asked.model));
  QuantizeJob job = asked;
  job.model_sha256 = ReadModel(job, progress);
  const CalibrationWindows seen = SeenTexts(job);
  if (job.method.rounding == Rounding::kNone) {
    Prepare(job, job.out, seen, progress);
    QuantizeSummary prepared = OnlyPrepared(job.model, job.out);
    prepared.calibration = seen.files;
    return prepared;
  }
  ModelConfig config = LoadConfig(job.model);
  if (job.method.Rotates()) config.tied_embeddings = false;  // afterwards
  CheckRounding(job, OpenSplit(job.model, config), config);
  if (job.method.equivalent == Equivalent::kNone && !job.method.RoundsByCalibration())
    return RoundLayers(job, job.model, nullptr, progress);  // seconds: nothing worth keeping
  LayerParts parts(job.parts.empty() ? fs::path(job.out.string() + ".parts") : job.parts,
                   job.resume ? EarlierParts::kTakenUp : EarlierParts::kDeleted);
  std::filesystem::path model = job.model;
  if (job.method.equivalent != Equivalent::kNone) {
    model = parts.Prepared();
    Prepare(job, model, seen, progress);
  }
  QuantizeSummary summary = RoundInParts(job, model, parts, progress);
  summary.bytes_before = Checkpoint(job.model).total_bytes();
  if (summary.calibration.empty()) summary.calibration = seen.files;
  parts.Remove();
  return summary;
}

}  // namespace tare
