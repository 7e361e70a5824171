// SPDX-License-Identifier: Apache-2.0
// Presets of the literature against codes, scales and outputs of the public code that they are named after
// (quant/plan/presets.h), made by other implementations in PyTorch, which agree with that code bit for bit where it
// runs on a CPU: heads of 32 channels, 133 tokens, a causal mask. Inputs are hostile: a key of 60, constant keys, a
// query and keys of zeros, subnormals of f16. Codes and scales are exact but for the numbers given here: values at a
// tie, which public code rounds away from 0, and next to one, where it divides and Tare multiplies. Outputs differ by
// less than 0.1 %. recipe_references_test.cc has more of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "experiments/plan/resolved_plan.h"
#include "quant/base/aligned.h"
#include "tests/support/golden_recipes.h"
#include "tests/support/simulated_plan.h"

namespace tare::recipes_test {
namespace {

using namespace golden_recipes;

// One scale per head; 133 keys are one tile of that kernel, so its maximum is final.
TEST(Recipes, Fa3) {
  const Under recipe("fa3-fp8");
  EXPECT_EQ(Differences(recipe, Site::kQ, {.of = "fa3-fp8.q", .fp8 = true, .scale = OfHead}), 0);
  EXPECT_EQ(Differences(recipe, Site::kK, {.of = "fa3-fp8.k", .fp8 = true, .scale = OfHead}), 0);
  EXPECT_EQ(Differences(recipe, Site::kV, {.of = "fa3-fp8.v", .fp8 = true, .scale = OfAll}), 0);
  EXPECT_LT(RelativeTo(Golden("fa3-fp8.o"), recipe.out), 2e-6);
}

// The golden scales of q are of logits in powers of two.
TEST(Recipes, Sage1) {
  const Under recipe("sage1");
  const double logits = std::sqrt(kWidth) / 1.44269504;
  EXPECT_EQ(Differences(recipe, Site::kQ, {.of = "sage1.q", .scale = OfTokens<128>, .factor = logits}), 0);
  EXPECT_EQ(Differences(recipe, Site::kK, {.of = "sage1.k", .scale = OfTokens<64>, .added = "mean"}), 0);
  EXPECT_LT(RelativeTo(Golden("sage1.o"), recipe.out), 2e-4);  // probabilities in f16 there
}

TEST(Recipes, Sage2) {
  const Under recipe("sage2");
  EXPECT_EQ(Differences(recipe, Site::kQ, {.of = "sage2.q", .scale = By8}), 3);
  EXPECT_EQ(Differences(recipe, Site::kK, {.of = "sage2.k", .scale = By4x2, .added = "mean"}), 1);
  EXPECT_EQ(Differences(recipe, Site::kV, {.of = "sage2.v", .fp8 = true, .scale = OfChannel}), 1);
  EXPECT_LT(RelativeTo(Golden("sage2.o"), recipe.out), 1e-3);
  const Under plusplus("sage2pp");
  EXPECT_EQ(Differences(plusplus, Site::kV, {.of = "sage2pp.v", .fp8 = true, .scale = OfChannel}), 0);
  const Under warps("q=int8/tokens32,k=int8/tokens64+smoothall");  // its CUDA kernels
  EXPECT_EQ(Differences(warps, Site::kQ, {.of = "sage2.q_warp", .scale = OfTokens<32>}), 0);
  EXPECT_EQ(Differences(warps, Site::kK, {.of = "sage2.k_block", .scale = OfTokens<64>, .added = "mean"}), 0);
}

// Codes next to a tie differ, as the kernels' exponential is within 4e-4.
TEST(Recipes, ExecutedIntFlash) {
  Under executed("f32");
  const std::vector<double> golden = Golden("int-flash.o");
  const double own = RelativeTo(golden, executed.out);
  ExecutedMemory memory;
  const ExecutedSequence sequence(ExecutedPlanOfText("here", "int-flash", 2), executed.Problem(kTwoHeads), memory);
  AlignedBuffer<std::byte> workspace(sequence.WorkspaceBytes());
  sequence.Run(workspace.span());
  EXPECT_LT(RelativeTo(golden, executed.out), 0.25 * own);
}

// Late: each map is a head of its own, and v is rounded once.
TEST(Recipes, ADifferentialHeadIsTheDifferenceOfItsMaps) {
  for (const char* name : {"sage1", "sage2", "sage2-paper", "sage3", "fa3-fp8", "int-flash", "kivi4"}) {
    const Under heads(name), maps(name, Input("k"), {{.q1 = 0, .k1 = 0, .q2 = 1, .k2 = 1}});
    EXPECT_EQ(maps.rounded, heads.rounded) << name;
    std::vector<double> difference(heads.out.begin(), heads.out.begin() + kOfHead);
    for (size_t i = 0; i < kOfHead; ++i) difference[i] -= double{kLambda} * heads.out[kOfHead + i];
    EXPECT_LT(RelativeTo(difference, maps.out), 2e-6) << name;
  }
}

// KIVI leaves the newest tokens, which have no codes here.
TEST(Recipes, Kivi) {
  const Under recipe("kivi2");
  const auto by_channel = [](size_t head, size_t token, size_t channel) {
    return head * 128 + channel * 4 + token / 32;
  };
  EXPECT_EQ(Differences(recipe, Site::kK, {.of = "kivi2.k", .scale = by_channel, .added = "min", .tokens = 128}), 0);
  EXPECT_EQ(Differences(recipe, Site::kV, {.of = "kivi2.v", .scale = OfToken, .added = "min", .tokens = 101}), 0);
}

TEST(Recipes, VllmFp8) {
  const Under recipe("vllm-fp8");
  EXPECT_EQ(Differences(recipe, Site::kK, {.of = "vllm-fp8.k", .fp8 = true, .scale = OfAll}), 0);
  EXPECT_EQ(Differences(recipe, Site::kV, {.of = "vllm-fp8.v", .fp8 = true, .scale = OfAll}), 0);
}

// Rows times the golden rotation, or back.
std::vector<float> Turned(const std::vector<float>& x, bool back) {
  static const std::vector<double> rotation = Golden("turboquant3.rotation");
  std::vector<float> y(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    double sum = 0;
    for (size_t c = 0, to = i % kWidth; c < kWidth; ++c)
      sum += x[i - to + c] * rotation[back ? to * kWidth + c : c * kWidth + to];
    y[i] = static_cast<float>(sum);
  }
  return y;
}

// Minima and scales of values are f16 there. A code at a midpoint that is not exactly ours makes a row differ.
TEST(Recipes, TurboQuant) {
  const Under recipe("turboquant3"), rotated("k=normal3/token", Turned(Input("k"), false));
  EXPECT_EQ(Differences(recipe, Site::kV, {.of = "turboquant3.v", .scale = OfToken, .added = "min", .tolerance = 0.1}),
            1);
  const std::vector<float> k = Turned(rotated.rounded.at(Site::kK), true);
  const std::vector<double> golden = Golden("turboquant3.k");
  int rows = 0;
  for (size_t row = 0; row < 2 * kTokens; ++row) {
    const auto at = static_cast<std::ptrdiff_t>(row * kWidth);
    const std::vector<double> one(golden.begin() + at, golden.begin() + at + kWidth);
    rows += RelativeTo(one, {k.begin() + at, k.begin() + at + kWidth}) > 0.01;
  }
  EXPECT_EQ(rows, 4);
}

const ModelConfig kLlama{.family = "llama", .layers = 1, .heads = 2, .kv_heads = 2};

// The mean of all tokens is 20.
TEST(Recipes, SmoothingOfAllTokensAndTheValueOfTheLargest) {
  constexpr int kRows = 128;
  std::vector<float> values(kRows);
  for (int r = 0; r < kRows; ++r) values[r] = (r < 64 ? 10.0f : 30.0f) + (r % 2 == 0 ? 4.0f : -4.0f);
  const std::vector<float> before = values;
  SimulatedPlan quantizer("v=int4/channel+smoothall+top2", kLlama);
  const SiteBlock block{
      .site = Site::kV, .layer = 0, .head = 0, .rows = kRows, .first_columns = 1, .values = values.data(), .stride = 1};
  quantizer.Visit(block, 0);
  for (int r = 0; r < kRows; ++r)  // 14 is 2 steps of 7, 6 is 1
    EXPECT_EQ(values[r], 20.0f + (before[r] > 20 ? 1 : -1) * (std::fabs(before[r] - 20) == 14 ? 14.0f : 7.0f)) << r;
}

// Where a scale spans heads, it is that of what is left of each.
TEST(Recipes, SmoothingComesBeforeAScaleOfManyHeads) {
  std::vector<float> a{101, 99}, b{53, 47};
  SimulatedPlan quantizer("k=int4/tensor+smoothall", kLlama);
  const auto block = [](std::vector<float>& values, int head) {
    return SiteBlock{.site = Site::kK,
                     .layer = 0,
                     .head = head,
                     .map = 1,
                     .rows = 2,
                     .first_columns = 1,
                     .values = values.data(),
                     .stride = 1};
  };
  EXPECT_TRUE(quantizer.NeedsSurvey(Site::kK, 0));
  for (int head = 0; head < 2; ++head) quantizer.Survey(block(head == 0 ? a : b, head), 0);
  for (int head = 0; head < 2; ++head) quantizer.Visit(block(head == 0 ? a : b, head), 0);
  EXPECT_THAT(b, testing::ElementsAre(53, 47));
  EXPECT_FLOAT_EQ(a[0], 100 + 2 * 3.0f / 7);
}

}  // namespace
}  // namespace tare::recipes_test
