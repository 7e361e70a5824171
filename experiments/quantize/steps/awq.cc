// SPDX-License-Identifier: Apache-2.0
// awq: equivalent weights by AWQ's factors for a whole model, then clipped ranges of groups
// (quant/algorithms/channel_transforms.h). For each input that the family can scale, a calibration text gives the ratio
// with the least squared error of all its linear layers' outputs, rounded to nearest by the plan. Inputs are the stored
// model's. Ranges need codes: rtn, unless another step makes them.
//
// The error is exact on all tokens, through second moments. llm-awq compares, on sampled tokens, attention's and the
// feed-forward's outputs for first layers, else as here; it skips o_proj of a shared V, whose heads here share factors.
#include "experiments/quantize/steps/smoothquant.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "experiments/model/linear/weight_matrix.h"
#include "experiments/model/plan_run.h"
#include "experiments/plan/resolved_plan.h"
#include "experiments/quantize/steps/table.h"
#include "quant/algorithms/channel_transforms.h"
#include "quant/algorithms/second_moments.h"
#include "quant/base/parallel.h"
#include "quant/file/mapped_file.h"
#include "quant/file/output_folder.h"

namespace tare {
namespace {

// By ratio: one factor for each input channel.
using Candidates = std::array<std::vector<float>, kAwqRatios>;
using Errors = std::array<double, kAwqRatios>;

// Mean |x| of each channel of these inputs, over all tokens.
std::map<Site, std::vector<double>> MeanMagnitudes(CalibrationPass& calibration, int layer,
                                                   std::span<const Site> sites) {
  std::map<Site, std::vector<double>> means;
  for (size_t batch = 0; batch < calibration.batches(); ++batch) {
    for (const auto& [site, x] : calibration.InputsOf(batch, layer, sites)) {
      std::vector<double>& sums = means[site];
      sums.resize(static_cast<size_t>(x.channels));
      ParallelFor(sums.size(), [&](size_t i, int) {
        const float* const channel = x.values.data() + static_cast<int64_t>(i) * x.tokens;
        for (int64_t t = 0; t < x.tokens; ++t) sums[i] += std::fabs(double{channel[t]});
      });
    }
  }
  for (auto& [site, sums] : means) {
    for (double& sum : sums) sum /= static_cast<double>(calibration.tokens());
  }
  return means;
}

// Channels with one factor in common have their mean magnitudes' mean.
std::vector<double> ByFactor(const std::vector<double>& means, const std::vector<int64_t>& factor_of) {
  const auto count = static_cast<size_t>(*std::ranges::max_element(factor_of) + 1);
  std::vector<double> sums(count, 0.0), shared(count, 0.0);
  for (size_t i = 0; i < means.size(); ++i) {
    sums[factor_of[i]] += means[i];
    ++shared[factor_of[i]];
  }
  for (size_t f = 0; f < count; ++f) sums[f] /= std::max(shared[f], 1.0);
  return sums;
}

// || (W - round(W s) / s) X ||^2 for one candidate.
double ErrorWith(const std::vector<float>& s, const WeightMatrix& stored, const Rule& rule, const SecondMoments& m,
                 const std::string& where) {
  AlignedBuffer<char> memory;
  const DenseMatrix scaled = FillMatrix(memory, WeightType::kF32, stored.out, stored.in, [&](int64_t row, float* y) {
    RowAsFloat(stored, row, y);
    for (int64_t i = 0; i < stored.in; ++i) y[i] *= s[i];
  });
  const QuantizedMatrixBuffer codes = QuantizeByRule(scaled, rule, where);
  std::vector<float> errors(static_cast<size_t>(stored.out * stored.in));
  ParallelFor(static_cast<size_t>(stored.out), [&](size_t r, int) {
    const auto row = static_cast<int64_t>(r);
    thread_local std::vector<float> exact;
    exact.resize(static_cast<size_t>(stored.in));
    RowAsFloat(stored, row, exact.data());
    float* const error = errors.data() + row * stored.in;
    DequantizeRow(codes.view(), row, error, where);
    for (int64_t i = 0; i < stored.in; ++i) error[i] = error[i] / s[i] - exact[i];
  });
  return OutputError(errors, stored.in, m.values);
}

// The search at one input of one layer.
class InputSearch {
 public:
  InputSearch(Model& model, CalibrationPass& calibration, const ResolvedPlan& plan, int layer, Site site)
      : model_(model), calibration_(calibration), plan_(plan), layer_(layer), site_(site) {
    rounded_ = LayersWithInput(site, model.config(), layer);
    std::erase_if(rounded_, [&](const LinearLayer& linear) { return plan.RuleAt(linear.WeightKey()) == nullptr; });
    std::ranges::stable_sort(rounded_, {}, &LinearLayer::expert);
  }

  // Empty where nothing is rounded here, or no ratio is better than none.
  std::vector<float> Best(const std::vector<double>& means) {
    if (rounded_.empty()) return {};
    const std::vector<int64_t> factor_of = FactorOf(site_, std::ssize(means), model_.config());
    const std::vector<double> magnitudes = ByFactor(means, factor_of);
    Candidates factors, by_channel;
    for (int ratio = 0; ratio < kAwqRatios; ++ratio) {
      factors[ratio] = AwqFactors(magnitudes, ratio);
      for (const int64_t f : factor_of) by_channel[ratio].push_back(factors[ratio][f]);
    }
    const Errors errors = ErrorsWith(by_channel);
    const auto best = std::ranges::min_element(errors) - errors.begin();
    return best == 0 ? std::vector<float>() : factors[static_cast<size_t>(best)];
  }

 private:
  // An expert's with the tokens that reach it.
  Errors ErrorsWith(const Candidates& candidates) {
    Errors errors{};
    InputMoments moments(calibration_, layer_, site_);
    for (const LinearLayer& linear : rounded_) {
      const SecondMoments& m = moments.Of(linear.expert);
      const WeightMatrix& stored = WeightsOf(model_.layers()[static_cast<size_t>(layer_)], linear).stored();
      for (size_t ratio = 0; m.tokens > 0 && ratio < candidates.size(); ++ratio) {
        ThrowIfStopped();
        errors[ratio] +=
            ErrorWith(candidates[ratio], stored, *plan_.RuleAt(linear.WeightKey()), m, linear.Tensor(model_.config()));
      }
    }
    return errors;
  }

  Model& model_;
  CalibrationPass& calibration_;
  const ResolvedPlan& plan_;
  int layer_;
  Site site_;
  std::vector<LinearLayer> rounded_;  // those with this input, an expert's together
};

}  // namespace

void CheckAwq(const ModelConfig& config, const Plan& plan) {
  const Family& family = FamilyOf(config);
  RequireScaledInputs(family, "awq");
  const bool rounds = std::ranges::any_of(family.linear, [&](const LinearPlace& place) {
    return plan.Touches(place.weight) && std::ranges::contains(family.smoothed, InputOf(place));
  });
  if (rounds) return;
  const std::string inputs = Listed(family.smoothed, ", ", [](Site site) { return Name(site); });
  Fail(
      "awq: got the plan '{}', expected one that rounds weights behind an input that {} model can scale ({}); try "
      "weights=int4/channel",
      plan.canonical(), WithArticle(family.name), inputs);
}

std::vector<LayerSmoothing> AwqScalingOf(Model& model, const std::vector<ScoredSequence>& text, const Plan& plan,
                                         const Progress& progress, std::pmr::memory_resource& kept) {
  const std::span<const Site> sites = FamilyOf(model.config()).smoothed;
  const ResolvedPlan resolved(plan, ModelSitesOf(model), Carrying::kSimulated);
  CalibrationPass calibration(model, text, kept);
  std::vector<LayerSmoothing> layers(static_cast<size_t>(model.config().layers));
  for (int layer = 0; layer < model.config().layers; ++layer) {
    const std::map<Site, std::vector<double>> means = MeanMagnitudes(calibration, layer, sites);
    for (const Site site : kCalibratedInputs) {  // in a layer's order
      const auto found = means.find(site);
      if (found == means.end()) continue;
      const std::vector<float> factors = InputSearch(model, calibration, resolved, layer, site).Best(found->second);
      if (!factors.empty()) layers[static_cast<size_t>(layer)][site] = factors;
    }
    if (layer + 1 < model.config().layers) calibration.Advance(layer);
    Report(progress, layer + 1, model.config().layers, "layers searched");
  }
  return layers;
}

// What its authors leave unclipped, q and k: what an error does there shows only in the product of both.
static InputRounding ClippedRanges(SharedInput& input) {
  return {.ends = [moments = input.Rotated()](Site weight, const ReadRow& read,
                                              const QuantizedMatrix& matrix) -> GroupEnds {
    if (weight == Site::kQProjW || weight == Site::kKProjW) return {};
    return [groups = matrix.Groups(), ends = AwqEnds(read, matrix, moments)](
               int64_t row, int64_t g, const float*, int64_t) { return ends[row * groups + g]; };
  }};
}

static EquivalentWeights ScaledWeights(const WeightsToChange& w) {
  Model model(w.job.model, WeightReading::kKnown);
  model.Show(w.text.images);
  NoticeFewTokens(w.text, w.config);
  DiskMemory states(FolderOf(w.out));
  return Smoothed(w.files, w.config, AwqScalingOf(model, w.text.sequences, w.job.plan, w.progress, states));
}

static Step ReadAwq(std::string_view) {
  return {.text = "awq",
          .change = ScaledWeights,
          .on_input = ClippedRanges,
          .reads_text = true,
          .reads_plan = true,
          .check = CheckAwq};
}

const StepKind kAwqStep{"awq", StepPlace::kWeights, ReadAwq, "",
                        "searches equivalent weights, and clips the ranges of groups"};

}  // namespace tare
