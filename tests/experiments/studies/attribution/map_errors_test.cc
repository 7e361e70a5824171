// SPDX-License-Identifier: Apache-2.0
#include "experiments/studies/attribution/map_errors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "tests/support/call.h"
#include "tests/support/captured_model.h"
#include "tests/support/golden.h"
#include "tests/support/site_recorder.h"

namespace tare::attribution_map_errors_test {
namespace {

constexpr size_t kKeys = 64, kRowsOfBatch = 50, kBatches = 40;
constexpr double kLambda = 0.6, kFirstNoise = 0.1, kSecondNoise = 0.14;  // standard deviations
// Formulas are of the first order in the variance: what they leave out is a few variances of them.
constexpr double kNextOrder = 3 * kSecondNoise * kSecondNoise;

struct Map {
  std::vector<float> logits, noisy_logits, map, noisy_map;
  MapRow Row() const { return {logits, noisy_logits, map, noisy_map}; }
};

std::vector<float> Softmaxed(const std::vector<float>& logits) {
  double sum = 0;
  for (const float s : logits) sum += std::exp(double{s});
  std::vector<float> map;
  for (const float s : logits) map.push_back(static_cast<float>(std::exp(double{s}) / sum));
  return map;
}

// Gaussian logits; noise that shares so much of its variance with another map's, and a shift that means nothing.
struct Drawn {
  explicit Drawn(double shared) : share(shared) {}
  const double share;
  std::mt19937_64 random{7};
  std::normal_distribution<double> normal{0, 1};

  void Draw(Map& first, Map& second) {
    first = second = Map();
    for (size_t j = 0; j < kKeys; ++j) {
      const double both = normal(random);
      const auto noise = [&] { return std::sqrt(share) * both + std::sqrt(1 - share) * normal(random); };
      Add(first, kFirstNoise * noise() + 3);
      Add(second, kSecondNoise * noise() - 5);
    }
    for (Map* map : {&first, &second}) map->map = Softmaxed(map->logits), map->noisy_map = Softmaxed(map->noisy_logits);
  }
  void Add(Map& map, double noise) {
    const double s = 1.5 * normal(random);
    map.logits.push_back(static_cast<float>(s));
    map.noisy_logits.push_back(static_cast<float>(s + noise));
  }
};

double Power(const Map& first, const Map& second, int a, int b) {
  double sum = 0;
  for (size_t j = 0; j < kKeys; ++j) sum += std::pow(first.map[j], a) * std::pow(second.map[j], b);
  return sum;
}

struct Mean {
  double sum = 0, squares = 0, formula = 0;
  void Add(double value, double expected) {
    sum += value / kBatches, squares += value * value / kBatches, formula += expected / kBatches;
  }
  // Within five standard errors of the batches' mean, and of what the formula leaves out.
  void ExpectFormula(double left_out) const {
    const double error = std::sqrt((squares - sum * sum) / (kBatches - 1));
    EXPECT_NEAR(sum, formula, 5 * error + left_out * std::abs(formula));
  }
};

struct Means {
  Mean first_peak, second_peak, difference_peak, exp_bias, common;
  MapErrors total;

  explicit Means(double share) {
    Drawn drawn(share);
    Map first, second;
    for (size_t batch = 0; batch < kBatches; ++batch) {
      MapErrors errors;
      double covariance = 0;
      for (size_t row = 0; row < kRowsOfBatch; ++row) {
        drawn.Draw(first, second);
        errors.Add(first.Row(), second.Row(), kLambda);
        const double s11 = Power(first, second, 1, 1);
        covariance += share * kFirstNoise * kSecondNoise *
                      (s11 - Power(first, second, 2, 1) - Power(first, second, 1, 2) + s11 * s11);
      }
      first_peak.Add(errors.maps[0].peak, errors.maps[0].peak_formula);
      second_peak.Add(errors.maps[1].peak, errors.maps[1].peak_formula);
      difference_peak.Add(errors.difference.peak, errors.difference.peak_formula);
      exp_bias.Add(errors.maps[1].exp_bias, errors.maps[1].half_variance);
      common.Add(errors.difference.common, kLambda * covariance);
      total += errors;
    }
  }
};

TEST(MapErrors, NoiseFlattensMapsAndTheirDifferenceByTheFormula) {
  const Means means(0);
  means.first_peak.ExpectFormula(kNextOrder);
  means.second_peak.ExpectFormula(kNextOrder);
  means.difference_peak.ExpectFormula(kNextOrder);
  EXPECT_LT(means.first_peak.formula, 0);
  // The variance by n - 1, its effect by n.
  means.exp_bias.ExpectFormula(kNextOrder + 1.0 / kKeys);
  const MapSums& second = means.total.maps[1];
  const double rows = kRowsOfBatch * kBatches, keys = rows * kKeys;
  EXPECT_EQ(second.rows, rows);
  EXPECT_NEAR(second.half_variance / rows, kSecondNoise * kSecondNoise / 2,
              5 * kSecondNoise * kSecondNoise / 2 * std::sqrt(2 / keys));
  EXPECT_NEAR(second.logit_squares / keys, 25 + kSecondNoise * kSecondNoise, 0.02);
  EXPECT_NEAR(second.shiftless_squares / keys, kSecondNoise * kSecondNoise * (1 - 1.0 / kKeys), 1e-3);
}

// The subtraction removes noise that both maps share, but not noise of one map alone.
TEST(MapErrors, CommonPartByTheFormula) {
  const Means alike(0.8), apart(0);
  alike.common.ExpectFormula(kNextOrder);
  apart.common.ExpectFormula(kNextOrder);
  EXPECT_GT(alike.common.formula, 0);
  for (const Means* means : {&alike, &apart}) {
    const DifferenceSums& d = means->total.difference;
    EXPECT_NEAR(d.error_squares, d.first_squares + d.second_squares - 2 * d.common, 1e-9 * d.first_squares);
    EXPECT_EQ(d.first_squares, means->total.maps[0].error_squares);
    EXPECT_NEAR(d.second_squares, kLambda * kLambda * means->total.maps[1].error_squares, 1e-9 * d.second_squares);
  }
}

// By hand: two keys, one row.
TEST(MapErrors, OfOneRow) {
  const std::vector<float> logits{0, 0}, noisy{0.5f, 0.25f}, map{0.5f, 0.5f}, noisy_map{0.625f, 0.375f};
  MapErrors errors;
  errors.Add({logits, noisy, map, noisy_map});
  const MapSums& s = errors.maps[0];
  EXPECT_NEAR(s.logit_squares, 0.3125, 1e-12);
  EXPECT_NEAR(s.shiftless_squares, 0.03125, 1e-12);
  EXPECT_NEAR(s.half_variance, 0.015625, 1e-12);
  EXPECT_NEAR(s.exp_bias, std::cosh(0.125) - 1, 1e-12);
  EXPECT_NEAR(s.error_squares, 0.03125, 1e-12);
  EXPECT_EQ(s.peak, 0);
  EXPECT_EQ(s.peak_formula, 0);  // nothing to flatten
  EXPECT_EQ(errors.maps[1].rows, 0);
  EXPECT_EQ(errors.difference.map_squares, 0);
}

std::vector<ScoredSequence> Sequences() { return {{{1, 5, 9, 2, 7, 3, 8}}, {{1, 4, 4, 6, 11}}}; }

std::vector<std::vector<MapErrors>> Measure(const char* model, const char* plan) {
  Model exact(GoldenFolder(model)), planned(GoldenFolder(model));
  PlanRun run(Plan::Parse(plan), Carrying::kSimulated, ModelSitesOf(exact));
  return MeasureMapErrors(exact, planned, run, Sequences(), {});
}

// The first layer's maps of whole passes, where inputs are the same.
TEST(MapErrorPass, FirstLayerAsInAWholePass) {
  for (const char* name : {"diffllama-gqa", "llama-mha"}) {
    const auto layers = Measure(name, "k=int4/token");
    Model model(GoldenFolder(name));
    PlanRun run(Plan::Parse("k=int4/token"), Carrying::kSimulated, ModelSitesOf(model));
    Recorder exact, noisy;
    SiteVisitor* const look[] = {&exact};
    ForwardAll(model, look, Sequences(), {}, [](const TokenBatch&) {});
    const SiteVisitors plans = run.Begin(model);
    std::vector<SiteVisitor*> both(plans.begin(), plans.end());
    both.push_back(&noisy);
    ForwardAll(model, both, Sequences(), {}, [](const TokenBatch&) {});
    for (int64_t sequence = 0; sequence < 2; ++sequence) {
      double squares[2] = {}, difference = 0;
      for (const auto& [key, seen] : exact.sites) {
        if (key.layer != 0 || (key.site != Site::kProbs && key.site != Site::kDifference)) continue;
        for (const auto& [place, row] : seen.rows) {
          if (place.first != sequence) continue;
          for (size_t j = 0; j < row.size(); ++j) {
            const double error = double{noisy.sites[key].rows[place][j]} - double{row[j]};
            (key.map ? squares[*key.map - 1] : difference) += error * error;
          }
        }
      }
      const MapErrors& errors = layers[0][static_cast<size_t>(sequence)];
      EXPECT_NEAR(errors.maps[0].error_squares, squares[0], 1e-6 * squares[0]);
      EXPECT_NEAR(errors.maps[1].error_squares, squares[1], 1e-6 * squares[1]);
      EXPECT_NEAR(errors.difference.error_squares, difference, 1e-4 * difference);  // lambda to f32's last digits
      EXPECT_GT(squares[0], 0);
    }
  }
}

// The second layer sees nothing of a rule that only the first layer has.
TEST(MapErrorPass, EveryLayerHasExactInputs) {
  const auto layers = Measure("diffllama-mha", "q[l0]=int4/token,v=int4/token");
  ASSERT_EQ(layers.size(), 3u);
  EXPECT_GT(layers[0][0].maps[0].error_squares, 0);
  EXPECT_EQ(layers[1][0].maps[0].error_squares, 0);
  EXPECT_EQ(layers[1][1].difference.error_squares, 0);
  EXPECT_GT(layers[1][1].difference.map_squares, 0);
}

// A plan's errors of q, k and v that were captured in a model's first layer are the model's.
TEST(MapErrorPass, CapturedTensorsHaveTheErrorsOfTheirModel) {
  const Plan plan = Plan::Parse("k=int4/token,attn_logits=int8/row");
  for (const char* name : {"llama-gqa", "diffllama-gqa"}) {
    const CapturedModel captured(name, Sequences()[0]);
    const LayerMapErrors layers = MeasureMapErrors(captured.input, plan, {});
    ASSERT_EQ(layers.size(), 1u);
    ASSERT_EQ(layers[0].size(), 1u);
    const MapErrors expected = Measure(name, "k=int4/token,attn_logits=int8/row")[0][0];
    for (size_t map = 0; map < 2; ++map) {
      EXPECT_EQ(layers[0][0].maps[map].error_squares, expected.maps[map].error_squares);
      EXPECT_EQ(layers[0][0].maps[map].logit_squares, expected.maps[map].logit_squares);
    }
    EXPECT_NEAR(layers[0][0].difference.error_squares, expected.difference.error_squares,
                1e-4 * expected.difference.error_squares);  // lambda in six digits
    EXPECT_GT(expected.maps[0].error_squares, 0);
  }
}

// Maps are the model's, the difference is theirs with the lambda that is named, and the error is the plan's in a pass.
TEST(MapErrorPass, PicturesOfHeads) {
  const Plan plan = Plan::Parse("k=int4/token");
  Model exact(GoldenFolder("diffllama-gqa")), planned(GoldenFolder("diffllama-gqa"));
  PlanRun run(plan, Carrying::kSimulated, ModelSitesOf(exact));
  std::vector<HeadPicture> heads{{0, 1}};
  MeasureMapErrors(exact, planned, run, Sequences(), {}, heads);
  const Json& head = heads[0].json;
  EXPECT_EQ(head.at("tokens"), 7);
  EXPECT_EQ(head.at("cell"), 1);
  const CapturedModel model("diffllama-gqa", Sequences()[0]);
  double most = 0;
  for (size_t query = 0; query < 7; ++query) {
    const Row& row = model.seen.sites.at({Site::kDifference, 0, 1, {}}).rows.at({0, static_cast<int64_t>(query)});
    ASSERT_EQ(head.at("error").at(query).size(), query + 1);
    for (size_t key = 0; key <= query; ++key) {
      const auto at = [&](const Json& cells) { return cells.at(query).at(key).get<double>(); };
      EXPECT_NEAR(at(head.at("difference")), row[key], 1e-4);
      EXPECT_NEAR(at(head.at("difference")),
                  at(head["maps"][0]) - head.at("lambda").get<double>() * at(head["maps"][1]), 1e-3);
      most = std::max(most, std::abs(at(head.at("error"))));
    }
  }
  EXPECT_GT(most, 1e-4);
  EXPECT_LT(most, 0.5);
  std::vector<HeadPicture> captured{{0, 1}};
  MeasureMapErrors(model.input, plan, {}, captured);
  EXPECT_EQ(captured[0].json.at("maps"), head.at("maps"));
  EXPECT_NEAR(captured[0].json.at("lambda").get<double>(), head.at("lambda").get<double>(), 1e-5);
}

// 300 tokens in a window of five keys, three a cell: the entry of largest magnitude, nothing outside the window.
TEST(MapErrorPass, PicturesHaveAtMost128Cells) {
  const TemporaryFolder folder;
  PutArrays(
      folder / "c.safetensors",
      {{"q.0", SomeArray({1, 1, 300, 4})}, {"k.0", SomeArray({1, 1, 300, 4})}, {"v.0", SomeArray({1, 1, 300, 4})}});
  PutFile(folder / "axes.json", R"({"attention": {"window": 5}})");
  const CapturedInput input = LoadCaptured({folder / "c.safetensors"}, CapturedLayout::Load(folder / "axes.json"));
  std::vector<HeadPicture> heads{{0, 0}};
  MeasureMapErrors(input, Plan::Parse("k=int4/token"), {}, heads);
  const Json& head = heads[0].json;
  EXPECT_EQ(head.at("cell"), 3);
  EXPECT_TRUE(head.at("lambda").is_null());
  const Json& cells = head.at("maps").at(0);
  ASSERT_EQ(cells.size(), 100u);
  EXPECT_EQ(cells[0], Json({1.0}));  // the first query sees one key
  ASSERT_EQ(cells[99].size(), 100u);
  EXPECT_TRUE(cells[99][96].is_null());
  EXPECT_GT(cells[99][99].get<double>(), 0.0);
}

TEST(MapErrorPass, PicturesOfHeadsThatAreNotThere) {
  Model model(GoldenFolder("llama-gqa"));
  PlanRun run(Plan::Parse("k=int4/token"), Carrying::kSimulated, ModelSitesOf(model));
  const auto refused = [&](HeadPicture head, const char* text) {
    EXPECT_THAT(Call([&] { MeasureMapErrors(model, model, run, Sequences(), {}, {&head, 1}); }),
                testing::ThrowsMessage<Error>(testing::HasSubstr(text)));
  };
  refused({99, 0}, "--heads: got layer 99, expected one with attention, up to ");
  refused({0, 99}, "--heads: got head 99 of layer 0, expected an output head, 0 to ");
  const TemporaryFolder folder;  // layers of two heads and of one
  PutArrays(folder / "c.safetensors", {{"q.0", SomeArray({1, 2, 5, 4})},
                                       {"k.0", SomeArray({1, 2, 5, 4})},
                                       {"v.0", SomeArray({1, 2, 5, 4})},
                                       {"q.1", SomeArray({1, 1, 5, 4})},
                                       {"k.1", SomeArray({1, 1, 5, 4})},
                                       {"v.1", SomeArray({1, 1, 5, 4})}});
  const CapturedInput input = LoadCaptured({folder / "c.safetensors"}, {});
  std::vector<HeadPicture> there{{0, 1}}, none{{1, 1}};
  MeasureMapErrors(input, Plan::Parse("k=int4/token"), {}, there);
  EXPECT_FALSE(there[0].json.is_null());
  EXPECT_THAT(Call([&] { MeasureMapErrors(input, Plan::Parse("k=int4/token"), {}, none); }),
              testing::ThrowsMessage<Error>("--heads: got head 1 of layer 1, expected an output head, 0 to 0"));
}

TEST(MapErrorPass, ExecutedPlansShowNoMaps) {
  Model model(GoldenFolder("llama-mha"));
  PlanRun run(Plan::Parse("weights=int8/channel"), Carrying::kExecuted, ModelSitesOf(model));
  EXPECT_THAT(
      Call([&] { MeasureMapErrors(model, model, run, Sequences(), {}); }),
      testing::ThrowsMessage<Error>(testing::HasSubstr("expected a simulated one: integer kernels show no maps")));
}

}  // namespace

}  // namespace tare::attribution_map_errors_test
