// SPDX-License-Identifier: Apache-2.0
// A method of `tare quantize --method`: steps joined by +, in order, each at most once. A step's record, in its own
// source, fully describes it; steps/table.h lists the records, and no other code asks for steps by name. And a job:
// what one `tare quantize` is asked for, reports and runs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/passes/progress.h"
#include "experiments/passes/sequences.h"
#include "experiments/plan/resolved_plan.h"
#include "experiments/quantize/calibration/calibration_pass.h"
#include "experiments/quantize/calibration/calibration_texts.h"
#include "quant/algorithms/round_to_nearest.h"
#include "quant/checkpoint/checkpoint.h"
#include "quant/plan/plan.h"

namespace tare {

struct EquivalentWeights;
struct QuantizeJob;
struct Step;
struct WeightMatrix;

// The product of a step: other weights that compute the same, codes of weights, or better codes of the same weights.
enum class StepPlace { kWeights, kCodes, kBetterCodes };

// The record of a step.
struct StepKind {
  std::string_view name;  // in --method and in files
  StepPlace place;
  // Reads the name with its options. Throws Error through FailUsage, naming the step.
  Step (*read)(std::string_view step);
  std::string_view options = {};  // as messages write them, "[:DAMPING][:stored|:moved]"; empty: it takes none
  std::string_view help = {};     // what it does
};

// The input of a step that changes weights.
struct WeightsToChange {
  const QuantizeJob& job;
  const CalibrationWindows& text;  // of the job, if the step reads one
  const Checkpoint& files;
  const ModelConfig& config;
  std::filesystem::path out;  // where the changed weights will be written; a step may put files of its own beside it
  const Progress& progress;
};

// Facts on an input that several weights multiply, in the model rounded so far.
class SharedInput {
 public:
  SharedInput(const SecondMoments& of, int64_t most_together, const Hadamard* of_rules, std::string name)
      : moments(of), together(most_together), where(std::move(name)), rotation(of_rules) {}

  // Sums of x x^T over the calibration's tokens; for a step that compares, also how the stored model's inputs differ.
  const SecondMoments& moments;
  const int64_t together;          // the most of them that share a code in any of the weights
  const std::string where;         // before messages
  const Hadamard* const rotation;  // of the weights' rules, all alike; null: none

  // R^T H R [in, in] of moments.values H, for weights that their rules rotate by R; else H.
  const std::vector<float>& Rotated();

 private:
  std::vector<float> rotated_;
};

// How a step rounds the W [out, in] of one input. Empty: left to other steps, or to nearest.
struct InputRounding {
  // W, before any rotation, becomes what the codes should be near.
  std::function<void(int64_t out, float* w)> aim = {};
  // The ends of groups' ranges; empty for a weight whose ranges its rule chooses.
  std::function<GroupEnds(Site weight, const ReadRow& read, const QuantizedMatrix& matrix)> ends = {};
  // Codes of all rows, and better ones. read gives W's rows as they are rounded: rotated, if the rule says so.
  std::function<void(const ReadRow& read, const GroupEnds& ends, QuantizedMatrixBuffer& matrix)> round = {};
  std::function<void(const ReadRow& read, QuantizedMatrixBuffer& matrix)> improve = {};
};

// Views of one batch, each [R, E]: a layer's input in the rounded model, and the stored model's state after it.
struct LayerTokens {
  const TokenBatch* batch;
  const float* input;
  const float* target;
};

// A layer whose matrices are rounded together.
struct LayerToRound {
  const ModelConfig& config;
  const LayerWeights& stored;
  int layer;
  const ResolvedPlan& plan;
  std::string where;  // before messages
  std::vector<LayerTokens> batches;
  std::function<void()> on_batch;  // is called after each batch that was taken through the layer
};

struct LayerRounding {
  // How many batches it takes through a layer, of batches with so many tokens.
  std::function<int64_t(const std::vector<int64_t>& tokens)> batches;
  // Calls add with the codes of each matrix that the plan rounds.
  using Add = std::function<void(const LinearLayer& linear, const Rule& rule, const QuantizedMatrix& codes)>;
  std::function<void(const LayerToRound& layer, const Add& add)> round;
};

// Rounds a matrix by itself. importance: as QuantizeByRule has it.
using RoundMatrix = std::function<QuantizedMatrixBuffer(const WeightMatrix& stored, const Rule& rule,
                                                        const std::string& where, std::span<const float> importance)>;

// A step: `change` of weights, or rounding with the calibration (`on_input`, `on_layer`) or without (`on_matrix`).
struct Step {
  std::string text;  // the name and what differs from the default options, as files record it
  std::function<EquivalentWeights(const WeightsToChange& weights)> change = {};
  std::function<InputRounding(SharedInput& input)> on_input = {};
  std::optional<LayerRounding> on_layer = {};
  RoundMatrix on_matrix = {};

  // Whether `change` reads the calibration texts, and whether it reads the plan's rules for weights.
  bool reads_text = false;
  bool reads_plan = false;
  bool takes_statistics = false;       // a statistics file serves instead of a text
  std::string_view without_text = {};  // what else to try where there is neither, for messages
  bool turns_stream = false;           // the embedding and the head become two
  // Whether on_input or on_layer looks at what the stored model makes of the texts.
  bool compares_with_stored = false;

  // Refuses models and plans, and rules for weights, before the first tensor is read. Both throw Error.
  std::function<void(const ModelConfig& config, const Plan& plan)> check = {};
  std::function<void(const Rule& rule)> check_rule = {};
  // For steps for codes: why none follows a step that chooses ranges, and why no step improves its codes.
  std::string_view no_ends = {}, no_better = {};

  bool RoundsByCalibration() const { return on_input || on_layer; }
};

struct QuantizeMethod {
  std::optional<Step> weights = {};
  std::optional<Step> codes = Step{.text = "rtn"};  // to nearest, which takes no function
  std::optional<Step> better = {};

  // The steps that the method has, in their order.
  std::vector<const Step*> Steps() const;
  // The step for weights in canonical form, and the steps for codes; "" for none.
  std::string EquivalentText() const { return weights ? weights->text : ""; }
  std::string RoundingText() const;
  std::string Text() const;  // of all steps
  // Whether any step may use a calibration text; whether steps for codes do.
  bool TakesCalibration() const { return RoundsByCalibration() || (weights && weights->reads_text); }
  bool RoundsByCalibration() const;
  bool ComparesWithStored() const;
};

using StepKinds = std::span<const StepKind* const>;

// Throws Error, naming the step.
QuantizeMethod ParseMethod(std::string_view text, StepKinds kinds);
// For help: the names of the steps that may read a calibration text.
std::string StepsWithText(StepKinds kinds);

// The job of one `tare quantize`.
struct QuantizeJob {
  std::filesystem::path model;  // a checkpoint folder, or a file without codes that an earlier job made
  Plan plan;                    // for weights; rules for activations are stored for later runs of the model
  std::filesystem::path out;
  QuantizeMethod method = {};
  CalibrationTexts calibration = {};      // for methods that need one
  std::filesystem::path statistics = {};  // instead, for smoothquant with a given alpha
  std::filesystem::path imatrix = {};     // weighs the errors of +mse in rtn (importance.h)
  WindowOptions windows = {};             // for the calibration
  std::filesystem::path parts = {};       // folder of finished parts meanwhile; empty: OUT.parts
  std::string model_sha256 = {};          // the model's ContentHash, if the caller knows it; empty: it is read
  bool fresh = false;                     // without the parts of an interrupted job; the result is byte-identical
};

// How many calibration tokens reached each expert of a layer.
struct ReachedExperts {
  int layer = 0;
  std::vector<int64_t> tokens;
};

struct QuantizeSummary {
  int64_t matrices = 0;      // quantized ones
  int64_t values = 0;        // in them
  int64_t bytes_before = 0;  // of all tensors
  int64_t bytes_after = 0;   // with codes and scales
  double weight_error = 0;   // ||W - Q|| / ||W|| over all matrices together
  // ||x - y|| / ||x||, RMS over a batch amid the text, by layer: x the stored model's state, y the rounded one's.
  std::optional<double> output_error = {};
  double bits_per_weight = 0;  // of the quantized matrices, with scales
  // By layer, for calibrated methods. Weights of an expert that no token reached are rounded to nearest.
  std::vector<ReachedExperts> experts = {};
  std::vector<CalibratedOn> calibration = {};  // empty: without a text
};

// The job's model, or the checkpoint without codes that was made from it.
struct ModelFiles {
  std::filesystem::path path;
  ModelConfig config;
  Checkpoint files;
};

// Turns a checkpoint into a quantized checkpoint by the steps of a method: equivalent weights, then codes.
//
// Memory, besides mapped files: rtn and hadamard hold one tensor (equivalent weights go through an f32 file beside the
// result), cayley the second moments that rotated_error.h counts, with such a file. With a text, methods hold one
// layer's dequantized weights and, for one input at a time, second moments and factors, at most 32 bytes per value; of
// experts, moments up to 1 GiB. autoround holds some 40 bytes per weight of a layer instead. On disk are the
// calibration's residual streams and as much again, what o_proj or gate_proj reads (gptaq, autoround: both twice).
//
// Reads the model once, hashing and checking it. Then processes layers in order, calibrating each on the output of the
// quantized layers before it. Throws Error, leaving nothing under `out`, if anything is wrong with the model, the plan
// or the method; after RequestStop it says which layers are kept.
QuantizeSummary Quantize(const QuantizeJob& job, const Progress& progress);

}  // namespace tare
