// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/steps/smoothquant.h"

#include <algorithm>
#include <cmath>

#include "experiments/model/linear/weight_matrix.h"
#include "experiments/model/plan_run.h"
#include "experiments/plan/model_sites.h"
#include "experiments/plan/resolved_plan.h"
#include "experiments/quantize/steps/table.h"
#include "kernels/elementwise/rows.h"
#include "quant/algorithms/channel_transforms.h"
#include "quant/base/parallel.h"
#include "quant/file/mapped_file.h"
#include "quant/file/output_folder.h"

namespace tare {
namespace {

constexpr int64_t kSampled = 512;

// One input of linear layers, in one layer of the model.
struct SmoothedInput {
  SmoothedInput(const Model& model, int layer, Site site, std::vector<float> absmax)
      : input(std::move(absmax)), places(LayersWithInput(site, model.config(), layer)) {
    factor_of = FactorOf(site, static_cast<int64_t>(input.size()), model.config());
    weight.resize(input.size());
    for (const LinearLayer& place : places) {
      const WeightMatrix& w = WeightsOf(model.layers()[static_cast<size_t>(layer)], place).stored();
      if (w.in != std::ssize(input))
        Fail("smoothquant: got {} of layer {} with {} channels, expected {}", Name(site), layer, input.size(), w.in);
      matrices.push_back(&w);
      std::vector<float> row(static_cast<size_t>(w.in));
      for (int64_t r = 0; r < w.out; ++r) {
        RowAsFloat(w, r, row.data());
        for (size_t i = 0; i < row.size(); ++i) weight[i] = std::max(weight[i], std::abs(row[i]));
      }
    }
  }

  // by_weights: whether large weights make an input's factor smaller.
  std::vector<float> Factors(double alpha, bool by_weights = true) const {
    const int64_t count = *std::ranges::max_element(factor_of) + 1;
    std::vector<float> x(static_cast<size_t>(count)), w(x.size());
    for (size_t i = 0; i < input.size(); ++i) {
      x[factor_of[i]] = std::max(x[factor_of[i]], input[i]);
      w[factor_of[i]] = std::max(w[factor_of[i]], weight[i]);
    }
    if (!by_weights) std::ranges::replace_if(w, [](float most) { return most > 0; }, 1.0f);
    return SmoothingFactors(x, w, alpha);
  }

  std::vector<float> input, weight;  // largest magnitude per channel
  std::vector<int64_t> factor_of;
  std::vector<LinearLayer> places;
  std::vector<const WeightMatrix*> matrices;  // of places
};

// Tokens spread over the text: their inputs [rows, channels], and for inputs of experts those that each chose.
struct Sample {
  std::vector<float> values;
  std::vector<int32_t> chosen;
};

// Rounds rows in place as a rule for linear_in says: one scale per token, or one for all.
void RoundInputs(const Rule& rule, int64_t rows, int64_t channels, float* x) {
  const bool one = rule.granularity.kind == Granularity::Kind::kTensor;
  const float of_all = one ? AbsMax(x, rows * channels) : 0;
  ParallelFor(static_cast<size_t>(rows), [&](size_t r, int) {
    float* row = x + static_cast<int64_t>(r) * channels;
    FakeQuantize(row, channels, ScaleFor(one ? of_all : AbsMax(row, channels), rule.format), rule.format);
  });
}

// Finds alpha on sampled inputs; an expert's with those that reach it.
class Search {
 public:
  // round: of the step after smoothquant, or empty.
  Search(const ResolvedPlan& plan, const SmoothedInput& at, const Sample& sample, const RoundMatrix& round)
      : plan_(plan), at_(at), round_(round), x_(sample.values), channels_(static_cast<int64_t>(at.input.size())) {
    for (const LinearLayer& place : at.places) rows_.push_back(RowsOf(place, sample));
    for (size_t p = 0; p < at.places.size(); ++p)
      exact_.push_back(Outputs(p, std::vector<float>(at.input.size(), 1.0f), {}));
  }

  // Empty if nothing is rounded or helps. Eleven alphas; before svdquant its authors' 21 with weights and 21 without.
  std::vector<float> Best() const {
    if (std::ranges::all_of(at_.places, [&](const LinearLayer& place) {
          const auto [weight, input] = RulesOf(place);
          return weight == nullptr && input == nullptr;
        }))
      return {};
    std::vector<float> best;
    double least = Error(std::vector<float>(at_.input.size(), 1.0f));
    const int steps = round_ ? 20 : 10;
    for (int i = 0; i < (round_ ? 2 : 1) * (steps + 1); ++i) {
      const std::vector<float> factors = at_.Factors(static_cast<double>(i % (steps + 1)) / steps, i <= steps);
      std::vector<float> s;
      for (const int64_t f : at_.factor_of) s.push_back(factors[f]);
      const double error = Error(s);
      if (error < least) least = error, best = factors;
    }
    return best;
  }

 private:
  double Error(const std::vector<float>& s) const {
    double sum = 0;
    for (size_t p = 0; p < at_.places.size(); ++p) {
      const std::vector<float> y = Outputs(p, s, RulesOf(at_.places[p]));
      for (size_t i = 0; i < y.size(); ++i)
        sum += (double{y[i]} - double{exact_[p][i]}) * (double{y[i]} - double{exact_[p][i]});
    }
    return sum;
  }

  struct Rules {
    const Rule *weight = nullptr, *input = nullptr;
  };

  Rules RulesOf(const LinearLayer& place) const {
    return {plan_.RuleAt(place.WeightKey()), plan_.RuleAt(place.InputKey())};
  }

  std::vector<int64_t> RowsOf(const LinearLayer& place, const Sample& sample) const {
    const int64_t all = static_cast<int64_t>(x_.size()) / channels_, k = std::ssize(sample.chosen) / all;
    std::vector<int64_t> rows;
    for (int64_t row = 0; row < all; ++row) {
      const auto chosen = sample.chosen.begin() + row * k;
      if (!place.expert || std::find(chosen, chosen + k, *place.expert) != chosen + k) rows.push_back(row);
    }
    return rows;
  }

  // (X / s) (W s)^T, both rounded by their rules. [rows, out]
  std::vector<float> Outputs(size_t p, const std::vector<float>& s, Rules rules) const {
    const WeightMatrix& stored = *at_.matrices[p];
    const std::vector<int64_t>& which = rows_[p];
    const auto rows = std::ssize(which);
    if (rows == 0) return {};
    AlignedBuffer<char> memory;
    DenseMatrix w = FillMatrix(memory, WeightType::kF32, stored.out, stored.in, [&](int64_t row, float* y) {
      RowAsFloat(stored, row, y);
      for (int64_t i = 0; i < stored.in; ++i) y[i] *= s[i];
    });
    AlignedBuffer<char> rounded;
    QuantizedMatrixBuffer codes;
    if (rules.weight != nullptr) {
      codes = (round_ ? round_ : QuantizeByRule)(w, *rules.weight, "smoothquant", {});
      w = InFloat(WeightMatrix(&codes.view()), Math::kF32, rounded, "smoothquant");
    }
    AlignedBuffer<float> x(static_cast<size_t>(PaddedRows(rows) * channels_));
    std::fill_n(x.data(), x.size(), 0.0f);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = 0; i < channels_; ++i)
        x[r * channels_ + i] = x_[static_cast<size_t>(which[static_cast<size_t>(r)] * channels_ + i)] / s[i];
    }
    std::vector<float> taken(x.data(), x.data() + rows * channels_);  // by rounding, which a branch does not see
    if (rules.input != nullptr) RoundInputs(*rules.input, rows, channels_, x.data());
    AlignedBuffer<float> y(static_cast<size_t>(PaddedRows(rows) * w.out));
    const Projection projection{.weight = w, .y = y.data()};
    projector_.Project(x.data(), rows, {&projection, 1});
    if (rules.input != nullptr && codes.view().branch.rank > 0) {
      for (size_t i = 0; i < taken.size(); ++i) taken[i] -= x[i];
      AddBranch(codes.view(), taken.data(), rows, y.data());
    }
    return {y.data(), y.data() + rows * w.out};
  }

  const ResolvedPlan& plan_;
  const SmoothedInput& at_;
  const RoundMatrix& round_;
  const std::vector<float>& x_;
  int64_t channels_;
  std::vector<std::vector<int64_t>> rows_;  // of x, by place
  std::vector<std::vector<float>> exact_;   // by place
  mutable Projector projector_{Math::kF32};
};

// Largest magnitudes of a layer's inputs, and a sample of tokens.
struct SeenInputs {
  std::map<Site, std::vector<float>> absmax;
  std::map<Site, Sample> sample;
};

SeenInputs See(CalibrationPass& calibration, int layer) {
  SeenInputs seen;
  std::map<Site, int64_t> first_token;
  const int64_t step = (calibration.tokens() + kSampled - 1) / kSampled;
  for (size_t batch = 0; batch < calibration.batches(); ++batch) {
    for (const auto& [site, x] : calibration.InputsOf(batch, layer, kCalibratedInputs)) {
      std::vector<float>& absmax = seen.absmax[site];
      absmax.resize(static_cast<size_t>(x.channels));
      for (int64_t i = 0; i < x.channels; ++i) {
        for (int64_t t = 0; t < x.tokens; ++t) absmax[i] = std::max(absmax[i], std::abs(x.values[i * x.tokens + t]));
      }
      int64_t& first = first_token[site];  // every step-th token of the text, across batches
      for (int64_t t = (step - first % step) % step; t < x.tokens; t += step) {
        Sample& sample = seen.sample[site];
        for (int64_t i = 0; i < x.channels; ++i) sample.values.push_back(x.values[i * x.tokens + t]);
        const int64_t k = std::ssize(x.chosen) / x.tokens;
        sample.chosen.insert(sample.chosen.end(), x.chosen.begin() + t * k, x.chosen.begin() + (t + 1) * k);
      }
      first += x.tokens;
    }
  }
  return seen;
}

// The search rounds inputs like the kernels that execute linear layers.
void CheckInputRules(const Plan& plan, std::span<const LinearPlace> linear) {
  for (const Rule& rule : plan.rules()) {
    if (rule.format == Format::kF32 || !std::ranges::contains(linear, rule.sites.front(), &LinearPlace::Input))
      continue;
    const Granularity::Kind kind = rule.granularity.kind;
    if (!IsInteger(rule.format))
      RefuseRule(rule, Name(rule.format), "an integer format, for which alpha is searched", "smoothquant:0.5");
    if ((kind != Granularity::Kind::kToken && kind != Granularity::Kind::kTensor) || rule.options != RuleOptions{})
      RefuseRule(rule, ScaleText(rule) + TextOf(rule.options), "one per token or tensor, for which alpha is searched",
                 "smoothquant:0.5");
  }
}

}  // namespace

std::vector<LayerSmoothing> SmoothingOf(const Model& model, const StatisticsSet& seen, double alpha) {
  RequireScaledInputs(FamilyOf(model.config()), "smoothquant");
  std::vector<LayerSmoothing> layers(static_cast<size_t>(model.config().layers));
  for (int layer = 0; layer < model.config().layers; ++layer) {
    for (const Site site : FamilyOf(model.config()).smoothed) {
      if (!HasSite(site, model.config(), layer)) continue;
      const auto found = seen.sites.find({.site = site, .layer = layer});
      if (found == seen.sites.end() || found->second.channel_absmax.empty())
        Fail("smoothquant: the statistics file has nothing of {} in layer {}; try tare stats with all sites",
             Name(site), layer);
      layers[layer][site] = SmoothedInput(model, layer, site, found->second.channel_absmax).Factors(alpha);
    }
  }
  return layers;
}

std::vector<LayerSmoothing> SmoothingOf(Model& model, const std::vector<ScoredSequence>& text, const Plan& plan,
                                        std::optional<double> alpha, const Progress& progress,
                                        std::pmr::memory_resource& kept, const RoundMatrix& round) {
  const Family& family = FamilyOf(model.config());
  RequireScaledInputs(family, "smoothquant");
  if (!alpha) CheckInputRules(plan, family.linear);
  if (!alpha && std::ranges::none_of(family.linear, [&](const LinearPlace& place) {
        return plan.Touches(place.weight) || plan.Touches(place.Input());
      })) {
    Fail("smoothquant: the plan '{}' rounds no linear layer, so there is no alpha to search for; try smoothquant:0.5",
         plan.canonical());
  }
  const ResolvedPlan resolved(plan, ModelSitesOf(model), Carrying::kSimulated);
  CalibrationPass calibration(model, text, kept);
  std::vector<LayerSmoothing> layers(static_cast<size_t>(model.config().layers));
  for (int layer = 0; layer < model.config().layers; ++layer) {
    SeenInputs seen = See(calibration, layer);
    for (const Site site : family.smoothed) {
      if (!seen.absmax.contains(site)) continue;  // layers of another kind have it
      const SmoothedInput at(model, layer, site, std::move(seen.absmax.at(site)));
      const std::vector<float> factors =
          alpha ? at.Factors(*alpha) : Search(resolved, at, seen.sample.at(site), round).Best();
      if (!factors.empty()) layers[layer][site] = factors;
    }
    if (layer + 1 < model.config().layers) calibration.Advance(layer);
    Report(progress, layer + 1, model.config().layers, "layers");
  }
  return layers;
}

static EquivalentWeights SmoothedWeights(const WeightsToChange& w, std::optional<double> alpha) {
  Model model(w.job.model, WeightReading::kKnown);
  if (!w.job.statistics.empty()) {
    const auto seen = ReadStatisticsOf(w.job.statistics, w.files.ContentHash(), w.files.ConfigHash());
    return Smoothed(w.files, w.config, SmoothingOf(model, *seen, *alpha));
  }
  model.Show(w.text.images);
  DiskMemory states(FolderOf(w.out));
  const RoundMatrix round = w.job.method.codes ? w.job.method.codes->on_matrix : RoundMatrix();
  return Smoothed(w.files, w.config,
                  SmoothingOf(model, w.text.sequences, w.job.plan, alpha, w.progress, states, round));
}

static Step ReadSmoothQuant(std::string_view step) {
  const std::optional<double> alpha = NumberOption<double>(step, "a number from 0 to 1", 0, 1);
  return {.text = alpha ? Formatted("smoothquant:{}", *alpha) : "smoothquant",
          .change = [alpha](const WeightsToChange& weights) { return SmoothedWeights(weights, alpha); },
          .reads_text = true,
          .reads_plan = !alpha,
          .takes_statistics = alpha.has_value(),
          .without_text = "--stats S.h5 and smoothquant:0.5"};
}

const StepKind kSmoothQuantStep{"smoothquant", StepPlace::kWeights, ReadSmoothQuant, "[:ALPHA]",
                                "moves scale from inputs to weights; ALPHA is searched if not given"};

}  // namespace tare
