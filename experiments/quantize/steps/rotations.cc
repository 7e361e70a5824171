// SPDX-License-Identifier: Apache-2.0
// hadamard[:SEED]: equivalent weights, rotated (equivalent_weights.h); SEED of the signs, else 0.
// cayley[:STEPS[:SEED]]: hadamard's, then rotations of the residual stream and each layer's values, learned on the
// calibration text for what the plan rounds: those of least error that descent from the identity by Cayley steps sees
// (rotated_error.h, quant/algorithms/channel_transforms.h). STEPS: 1 to 10,000, else 100.
//
// Measured on the embedded standard model's stream, int4 in groups of 64 and 16, where the Hadamard rotation loses
// 0.165 (16,384 tokens, 100 steps of 0.19 s on two cores): 36 % less, 38 % in 300 steps. With codes held in the
// gradient, which is exact between changes of codes, 23 %; with codes and scales held 14 %.
#include "experiments/quantize/steps/rotated_error.h"
#include "experiments/quantize/steps/table.h"
#include "quant/algorithms/channel_transforms.h"
#include "quant/file/mapped_file.h"
#include "quant/file/output_folder.h"

namespace tare {

LearnedRotation LearnRotation(RotatedError& error, int steps, const Progress& progress) {
  // The best of 0.03, 0.1, 0.3 and 1 for the embedded standard model's stream, in int4 in groups.
  constexpr double kFirstAngle = 0.3;
  std::vector<std::vector<double>> rotations, gradients;
  for (const int64_t size : error.sizes()) {
    std::vector<double>& identity = rotations.emplace_back(static_cast<size_t>(size * size));
    for (size_t i = 0; i < identity.size(); i += static_cast<size_t>(size) + 1) identity[i] = 1;
  }
  LearnedRotation learned{.rotations = rotations};
  for (int step = 0; step <= steps; ++step) {
    const double now = error.At(rotations, gradients);
    if (step == 0) learned.first = learned.least = now;
    if (now < learned.least) {
      learned.least = now;
      learned.rotations = rotations;
    }
    Report(progress, step, steps, "steps");
    if (step == steps) break;
    const double angle = kFirstAngle * (1 - static_cast<double>(step) / steps);
    for (size_t i = 0; i < rotations.size(); ++i) CayleyStep(error.sizes()[i], gradients[i], angle, rotations[i]);
  }
  return learned;
}

// The rotations of stream and values after the Hadamard rotations, learned on the checkpoint that these make: its norms
// are 1, so that linear layers read the turned stream. It passes through a file in a folder next to the result.
static LearnedRotations LearnedTurns(const WeightsToChange& w, StepsAndSeed options) {
  const AtomicFolder passing(w.out.string() + ".hadamard");
  const std::filesystem::path begun = passing.path() / "start.h5";
  WriteEquivalent(w.files, w.job.model, Rotated(w.files, w.config, options.seed), {.plan = "f32"}, begun, w.progress);
  Model model(begun, WeightReading::kKnown);
  model.Show(w.text.images);
  NoticeFewTokens(w.text, w.config);
  DiskMemory states(passing.path());
  RotatedError error(model, w.text.sequences, w.job.plan, w.progress, states);
  std::vector<std::vector<double>> turns = LearnRotation(error, options.steps, w.progress).rotations;
  LearnedRotations learned{.stream = std::move(turns.front())};
  learned.values.assign(std::make_move_iterator(turns.begin() + 1), std::make_move_iterator(turns.end()));
  return learned;
}

static Step ReadHadamard(std::string_view step) {
  const uint64_t seed = NumberOption<uint64_t>(step, kSeedOption).value_or(0);
  return {.text = seed == 0 ? "hadamard" : Formatted("hadamard:{}", seed),
          .change = [seed](const WeightsToChange& w) { return Rotated(w.files, w.config, seed); },
          .turns_stream = true};
}

static Step ReadCayley(std::string_view step) {
  const StepsAndSeed options = StepsAndSeedOption(step, kCayleySteps);
  const auto change = [options](const WeightsToChange& w) {
    return Rotated(w.files, w.config, options.seed, LearnedTurns(w, options));
  };
  return {.text = WithStepsAndSeed("cayley", options, kCayleySteps),
          .change = change,
          .reads_text = true,
          .reads_plan = true,
          .turns_stream = true,
          .check = CheckRotatedError};
}

const StepKind kHadamardStep{"hadamard", StepPlace::kWeights, ReadHadamard, "[:SEED]",
                             "rotates the residual stream and values, at no cost in a run"};

const StepKind kCayleyStep{"cayley", StepPlace::kWeights, ReadCayley, "[:STEPS[:SEED]]",
                           "learns these rotations for the plan (100 steps)"};

}  // namespace tare
