// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/steps/autoround.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "experiments/model/linear/weight_matrix.h"
#include "experiments/quantize/steps/table.h"
#include "experiments/significance/draws.h"
#include "quant/algorithms/round_to_nearest.h"
#include "quant/base/parallel.h"
#include "quant/format/hadamard.h"

namespace tare {
namespace {

// The weights of the layer that the plan rounds.
std::set<Site> Rounded(const ModelConfig& config, int layer, const ResolvedPlan& plan) {
  std::set<Site> weights;
  for (const LinearLayer& linear : LinearLayersOf(config, layer)) {
    if (plan.RuleAt(linear.WeightKey()) != nullptr) weights.insert(linear.place->weight);
  }
  return weights;
}

}  // namespace

std::vector<std::vector<size_t>> BatchesOfSteps(const std::vector<int64_t>& tokens, int steps, uint64_t seed) {
  const int64_t most = *std::ranges::max_element(tokens);
  std::vector<std::vector<size_t>> batches(static_cast<size_t>(steps));
  Draws draws(seed);
  std::vector<size_t> order = AllBelow(tokens.size());  // a new one whenever all have had their turn
  size_t next = 0;
  for (std::vector<size_t>& of_step : batches) {
    for (int64_t sum = 0; sum < most; sum += tokens[of_step.back()], next = (next + 1) % order.size()) {
      if (next == 0) draws.Shuffle(order);
      of_step.push_back(order[next]);
    }
  }
  return batches;
}

int64_t LearningBatches(const std::vector<int64_t>& tokens, int steps, uint64_t seed) {
  int64_t all = 2 * std::ssize(tokens);  // of the losses before and after
  for (const std::vector<size_t>& of_step : BatchesOfSteps(tokens, steps, seed)) all += std::ssize(of_step);
  return all;
}

void CheckLearnedLayers(const ModelConfig& config, const Plan&) {
  if (const std::string why = WithoutGradient(config); !why.empty())
    FailUsage("--method autoround: got {}; try signround", why);
}

LearnedLayer::LearnedLayer(const ModelConfig& config, const LayerWeights& stored, int layer, const ResolvedPlan& plan,
                           const std::string& where)
    : layer_(config, stored, layer, Rounded(config, layer, plan)), where_(Formatted("{}: layer {}", where, layer)) {
  for (const LinearLayer& linear : LinearLayersOf(config, layer)) {
    const Rule* const rule = plan.RuleAt(linear.WeightKey());
    if (rule == nullptr) continue;
    const WeightMatrix& from = WeightsOf(stored, linear).stored();
    const ReadRow read = RowsToRound(*rule, from.in, [&from](int64_t row, float* y) { RowAsFloat(from, row, y); });
    LearnedMatrix& m = matrices_.emplace_back(linear, rule, MatrixFor(*rule, from.out, from.in, read));
    const GroupEnds ends = EndsBy(rule->options.mse ? ClipChoice::kLeastSquares : ClipChoice::kAbsmax, rule->format,
                                  m.codes.tensor_absmax());
    try {
      for (int64_t first = 0; first < from.out; first += kRowsTogether)
        m.rows.emplace_back(m.codes.view(), first, read, ends);
    } catch (const Error& error) {
      Fail("{}: {}: {}", where_, Name(linear.place->weight), error.what());
    }
  }
}

LearnedLayer::Losses LearnedLayer::Learn(const std::vector<LayerTokens>& batches, int steps, uint64_t seed,
                                         const std::function<void()>& body) {
  TARE_CHECK(!batches.empty() && steps > 0);
  for (LearnedMatrix& matrix : matrices_) RoundInto(matrix);
  KeepAll();
  Losses losses{.nearest = MeanLoss(batches, body), .learned = 0};
  if (!std::isfinite(losses.nearest))
    Fail(
        "{}: autoround: got an error of the output that is not finite, expected values within f32; try `tare stats` to "
        "see where this model's values grow, or signround",
        where_);
  std::vector<int64_t> tokens;
  for (const LayerTokens& batch : batches) tokens.push_back(batch.batch->Rows());
  const std::vector<std::vector<size_t>> of_steps = BatchesOfSteps(tokens, steps, seed);
  const auto n = static_cast<float>(steps);
  for (int step = 0; step < steps; ++step) {
    layer_.ClearGradients();
    for (const size_t index : of_steps[static_cast<size_t>(step)]) {
      LossOf(batches[index], true);
      body();
    }
    for (LearnedMatrix& matrix : matrices_) {
      StepFrom(matrix, (1.0f - static_cast<float>(step) / n) / n);
      RoundInto(matrix);
    }
  }
  losses.learned = MeanLoss(batches, body);  // not less where it is not finite
  if (losses.learned < losses.nearest) KeepAll();
  for (LearnedMatrix& matrix : matrices_) {
    for (const LearnedRows& rows : matrix.rows) rows.Write(matrix.codes);
  }
  return losses;
}

// The rounded weights into the layer, turned back if they were rotated.
void LearnedLayer::RoundInto(LearnedMatrix& matrix) {
  float* const weight = layer_.Weight(matrix.linear.place->weight);
  const QuantizedMatrix& m = matrix.codes.view();
  ParallelFor(matrix.rows.size(), [&](size_t block, int) {
    LearnedRows& rows = matrix.rows[block];
    rows.Round();
    for (int64_t r = 0; r < rows.count(); ++r) {
      float* const row = weight + (rows.first() + r) * m.in;
      rows.CopyValues(r, row);
      if (m.rotation != nullptr) m.rotation->RotateBack(row, row);
    }
  });
}

void LearnedLayer::StepFrom(LearnedMatrix& matrix, float rate) {
  const float* const gradient = layer_.Gradient(matrix.linear.place->weight);
  const QuantizedMatrix& m = matrix.codes.view();
  ParallelFor(matrix.rows.size(), [&](size_t block, int) {
    LearnedRows& rows = matrix.rows[block];
    std::vector<float> row(static_cast<size_t>(m.in));
    for (int64_t r = 0; r < rows.count(); ++r) {
      std::copy_n(gradient + (rows.first() + r) * m.in, m.in, row.data());
      if (m.rotation != nullptr) m.rotation->Rotate(row.data(), row.data());
      for (int64_t i = 0; i < m.in; ++i) rows.gradient()[i * kRowsTogether + r] = row[static_cast<size_t>(i)];
    }
    rows.Step(rate);
  });
}

// Sum of squares; with gradients, those of half of it are added.
double LearnedLayer::LossOf(const LayerTokens& tokens, bool gradients) {
  const float* const output = layer_.Forward(*tokens.batch, tokens.input);
  const auto rows = static_cast<size_t>(tokens.batch->Rows()), channels = static_cast<size_t>(layer_.channels());
  d_output_.Reserve(rows * channels);
  std::vector<double> sums(rows);
  ParallelFor(rows, [&](size_t row, int) {
    for (size_t at = row * channels; at < (row + 1) * channels; ++at) {
      d_output_[at] = output[at] - tokens.target[at];
      sums[row] += double{d_output_[at]} * double{d_output_[at]};
    }
  });
  if (gradients) layer_.Backward(d_output_.data());
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

double LearnedLayer::MeanLoss(const std::vector<LayerTokens>& batches, const std::function<void()>& body) {
  double sum = 0;
  int64_t tokens = 0;
  for (const LayerTokens& batch : batches) {
    sum += LossOf(batch, false);
    tokens += batch.batch->Rows();
    body();
  }
  return sum / static_cast<double>(tokens * layer_.channels());
}

void LearnedLayer::KeepAll() {
  LearnedRows::Lanes all;
  all.fill(1);
  for (LearnedMatrix& matrix : matrices_) {
    for (LearnedRows& rows : matrix.rows) rows.Keep(all);
  }
}

static Step ReadAutoRound(std::string_view text) {
  const StepsAndSeed options = StepsAndSeedOption(text, kSignRoundSteps);
  LayerRounding on_layer;
  on_layer.batches = [options](const std::vector<int64_t>& tokens) {
    return LearningBatches(tokens, options.steps, options.seed);
  };
  on_layer.round = [options](const LayerToRound& all, const LayerRounding::Add& add) {
    LearnedLayer learned(all.config, all.stored, all.layer, all.plan, all.where);
    learned.Learn(all.batches, options.steps, options.seed, all.on_batch);
    for (const LearnedMatrix& m : learned.matrices()) add(m.linear, *m.rule, m.codes.view());
  };
  return {.text = WithStepsAndSeed("autoround", options, kSignRoundSteps),
          .on_layer = on_layer,
          .compares_with_stored = true,
          .check = CheckLearnedLayers,
          .check_rule = RequireIntegers,
          .no_ends = "autoround does not begin with the ranges that awq chooses; try awq+signround, or autoround alone",
          .no_better =
              "quantease changes each matrix for its own output, autoround all for the layer's; try autoround "
              "alone, or signround+quantease"};
}

const StepKind kAutoRoundStep{"autoround", StepPlace::kCodes, ReadAutoRound, "[:STEPS[:SEED]]",
                              "learns the rounding of a whole layer (200 steps)"};

}  // namespace tare
