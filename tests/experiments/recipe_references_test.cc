// SPDX-License-Identifier: Apache-2.0
// Recipes of which public code is not repeated in all respects, against references in double, and SageAttention 3 and
// torchao's int8; short texts. recipes_test.cc has the others and says what golden data are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "quant/plan/presets.h"
#include "tests/support/golden_recipes.h"
#include "tests/support/simulated_plan.h"

namespace tare::recipe_references_test {
namespace {

using namespace golden_recipes;

// How many values are not the multiple of their step that is nearest to x, to 1e-4 of the step.
int OffTheGrid(const std::vector<float>& got, const std::vector<double>& x,
               const std::function<double(size_t i)>& step) {
  int off = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double steps = got[i] / step(i);
    off +=
        !(step(i) == 0 ? got[i] == 0
                       : std::fabs(steps - std::nearbyint(steps)) < 1e-4 && std::fabs(steps - x[i] / step(i)) < 0.5001);
  }
  return off;
}

// No public code has it: 15 codes about the means of 128 queries and of all keys, and their scales for threads.
TEST(RecipeReferences, Sage2OfThePaper) {
  const Under recipe("sage2-paper");
  for (const auto& [site, scale, name, run] :
       {std::tuple{Site::kQ, ScaleAt(By8), "q", 128}, {Site::kK, ScaleAt(By4x2), "k", kTokens}}) {
    std::vector<double> x = Golden(name);
    std::vector<float> got = recipe.rounded.at(site);
    std::map<size_t, double> absmax;
    std::vector<double> mean(x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      const size_t first = i / kOfHead * kTokens, token = i / kWidth % kTokens, begin = token / run * run;
      for (size_t t = begin; t < std::min<size_t>(begin + run, kTokens); ++t)
        mean[i] += x[(first + t) * kWidth + i % kWidth] / run;
    }
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] -= mean[i];
      if (site == Site::kK) got[i] -= static_cast<float>(mean[i]);
      double& largest = absmax[scale(i / kOfHead, i / kWidth % kTokens, 0)];
      largest = std::max(largest, std::fabs(x[i]));
    }
    const auto step = [&](size_t i) { return absmax.at(scale(i / kOfHead, i / kWidth % kTokens, 0)) / 7; };
    EXPECT_EQ(OffTheGrid(got, x, step), 0) << name;
  }
}

double ToHalf(double x) {
  const double step = x == 0 ? 1 : std::ldexp(1.0, std::max(std::ilogb(x), -14) - 10);
  return std::nearbyint(x / step) * step;
}

// INT-FlashAttention of its golden codes, in double, with the maximum of the tiles so far. Its kernel rounds
// probabilities in f16.
std::vector<float> IntFlash(size_t tile, bool halves) {
  const std::vector<double> q = Golden("int-flash.q_codes"), k = Golden("int-flash.k_codes"),
                            v = Golden("int-flash.v_codes"), q_scale = Golden("int-flash.q_scale"),
                            k_scale = Golden("int-flash.k_scale");
  std::vector<float> out;
  for (size_t row = 0; row < 2 * kTokens; ++row) {
    const size_t first = row / kTokens * kTokens, keys = row % kTokens + 1;
    double most = -HUGE_VAL, sum = 0, of_channel[kWidth]{};
    for (size_t begin = 0; begin < keys; begin += tile) {
      std::vector<double> logits;
      for (size_t key = begin; key < std::min(begin + tile, keys); ++key) {
        const double dot =
            std::inner_product(&q[row * kWidth], &q[row * kWidth] + kWidth, &k[(first + key) * kWidth], 0.0);
        logits.push_back(dot * q_scale[row] * k_scale[first + key] / std::sqrt(kWidth));
      }
      const double before = most;
      most = std::max(most, std::ranges::max(logits));
      sum *= std::exp(before - most);
      for (double& x : of_channel) x *= std::exp(before - most);
      for (size_t i = 0; i < logits.size(); ++i) {
        const double p = std::exp(logits[i] - most);
        const double code = std::floor((halves ? ToHalf(ToHalf(p) * 127) : p * 127) + 0.5);
        sum += p;
        for (size_t c = 0; c < kWidth; ++c) of_channel[c] += code * v[(begin + i) * kWidth + c];
      }
    }
    for (const double x : of_channel) out.push_back(static_cast<float>(x * Golden("int-flash.v_scale")[0] / 127 / sum));
  }
  return out;
}

// The reference is the public kernel's in tiles of 64 keys, and Tare's in one tile of all.
TEST(RecipeReferences, IntFlash) {
  const Under recipe("int-flash"), exact("f32");
  EXPECT_EQ(Differences(recipe, Site::kQ, {.of = "int-flash.q", .scale = OfToken}), 0);
  EXPECT_EQ(Differences(recipe, Site::kK, {.of = "int-flash.k", .scale = OfToken}), 0);
  EXPECT_EQ(Differences(recipe, Site::kV, {.of = "int-flash.v", .scale = OfAll}), 0);
  const std::vector<double> golden = Golden("int-flash.o");
  EXPECT_LT(RelativeTo(golden, IntFlash(64, true)), 1e-6);
  const std::vector<float> final_maximum = IntFlash(kTokens, false);
  EXPECT_LT(RelativeTo({final_maximum.begin(), final_maximum.end()}, recipe.out), 2e-6);
  EXPECT_LT(RelativeTo(golden, recipe.out), 0.01 * RelativeTo(golden, exact.out));
}

// The last run of 5 queries has the mean of 128, zeros with them; tiles of 128 keys there, the last ones first.
TEST(RecipeReferences, Sage3) {
  const Under recipe("sage3");
  const auto of_row = [](size_t head, size_t token, size_t channel) {
    return (head * kTokens + token) * 2 + channel / 16;
  };
  const auto of_column = [](size_t, size_t token, size_t channel) { return channel * 9 + token / 16; };
  EXPECT_EQ(Differences(recipe, Site::kQ, {.of = "sage3.q", .fp4 = true, .scale = of_row}), 0);
  EXPECT_EQ(Differences(recipe, Site::kK, {.of = "sage3.k", .fp4 = true, .scale = of_row, .added = "mean"}), 0);
  EXPECT_EQ(Differences(recipe, Site::kV, {.of = "sage3.v", .fp4 = true, .scale = of_column}), 0);
  EXPECT_LT(RelativeTo(Golden("sage3.o"), recipe.out), 1e-3);
}

// One map is one tensor there.
TEST(RecipeReferences, Torchao) {
  std::string of_heads(FindPreset("torchao-int8")->rules);
  for (size_t at; (at = of_heads.find("tensor+zero")) != of_heads.npos;) of_heads.replace(at, 6, "head");
  Under recipe(of_heads);
  recipe.rounded[Site::kHeadOut] = recipe.out;
  EXPECT_EQ(Differences(recipe, Site::kQ, {.of = "torchao.q", .scale = OfHead, .added = "zero"}), 0);
  EXPECT_EQ(Differences(recipe, Site::kK, {.of = "torchao.k", .scale = OfHead, .added = "zero"}), 0);
  EXPECT_EQ(Differences(recipe, Site::kV, {.of = "torchao.v", .scale = OfAll, .added = "zero"}), 0);
  EXPECT_EQ(Differences(recipe, Site::kHeadOut, {.of = "torchao.o", .scale = OfHead, .added = "zero"}), 0);
  const Under both("torchao-int8");  // two maps share a scale
  for (const auto& [site, name] : {std::pair{Site::kQ, "q"}, {Site::kK, "k"}}) {
    const std::vector<double> x = Golden(name);
    const double step = (std::ranges::max(x) - std::ranges::min(x)) / 255;
    EXPECT_EQ(OffTheGrid(both.rounded.at(site), x, [=](size_t) { return step; }), 0) << name;
  }
}

// Blocks and runs may be cut short by the text's end, at any width.
TEST(RecipeReferences, TextsShorterThanABlock) {
  for (const PlanPreset& preset : kPlanPresets) {
    if (preset.source.empty() || preset.rules.contains("linear_in") || preset.rules.contains("prerotary")) continue;
    for (const int tokens : {1, 5}) {
      std::vector<float> x(static_cast<size_t>(tokens * 24)), out(x.size());
      for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7) - 2;
      const std::vector<OutputHead> one{{.q1 = 0, .k1 = 0}};
      const auto rows = DenseHeads<const float>(x.data(), tokens, 1, 24);
      const AttentionProblem problem{.q = rows,
                                     .k = rows,
                                     .v = rows,
                                     .heads = one,
                                     .mask = {},
                                     .scale = 0.1f,
                                     .out = DenseHeads(out.data(), tokens, 1, 24)};
      SimulatedAttention run(Plan::Parse(preset.name), AttentionSites(problem, {0}));
      const std::vector<AttentionSequence> sequences{{.index = 0, .first_row = 0, .prefix = tokens, .branches = {}}};
      run.Run(problem, sequences, 0);
      for (size_t c = 0; c < 24; ++c)  // the first query sees its own value alone, rounded to 2 bits at least
        EXPECT_NEAR(out[c], x[c], 1.1) << preset.name << ' ' << tokens << ' ' << c;
    }
  }
}

// 255 steps of 1, whatever a row's largest; 127.5 and 76.5 go to even codes.
TEST(RecipeReferences, ProbabilitiesOfOneFixedScale) {
  for (const bool normalized : {false, true}) {
    std::vector<float> row{0.5f, 0.3f, 0.2f};
    SimulatedPlan quantizer(normalized ? "probs=u8/tensor" : "probs=u8/tensor+unnormalized",
                            {.family = "llama", .layers = 1, .heads = 2, .kv_heads = 2});
    EXPECT_FALSE(quantizer.NeedsSurvey(Site::kProbs, 0));
    quantizer.Visit({.site = Site::kProbs,
                     .layer = 0,
                     .head = 0,
                     .map = 1,
                     .rows = 1,
                     .first_columns = 3,
                     .values = row.data(),
                     .stride = 3},
                    0);
    const float of = normalized ? 128 + 76 + 51 : 255;
    EXPECT_THAT(row,
                testing::ElementsAre(testing::FloatEq(128 / of), testing::FloatEq(76 / of), testing::FloatEq(51 / of)));
  }
}

}  // namespace
}  // namespace tare::recipe_references_test
