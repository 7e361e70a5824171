// SPDX-License-Identifier: Apache-2.0
#include "experiments/report/figures/sentences.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tare::sentences_test {
namespace {

TEST(SentencesTest, FiguresAreNamedInWords) {
  EXPECT_EQ(FigureOnText("perplexity:heldout", "perplexity"), "perplexity on heldout");
  EXPECT_EQ(FigureOnText("choice:needles-4", "acc"), "accuracy on needles-4");
  EXPECT_EQ(FigureOnText("divergence:t", "perplexity_ratio"), "ratio of perplexities on t");
  EXPECT_EQ(FigureOnText("zero_shot:cats", "text_r1"), "text_r1 on cats");
}

TEST(SentencesTest, MovesHaveTheDigitsOfTheirInterval) {
  Move move{
      .task = "perplexity:t", .figure = "perplexity", .value = 31.0203, .change = 1.688, .interval = {{1.49, 1.90}}};
  EXPECT_EQ(MoveText(move), "rises by 1.69 [1.49, 1.90], from 29.33 to 31.02");
  move.change = -1.688, move.interval = {{-1.90, -1.49}};
  EXPECT_EQ(MoveText(move), "falls by 1.69 [1.49, 1.90], from 32.71 to 31.02");
  move.interval.reset();
  EXPECT_EQ(MoveText(move), "falls by 1.688, from 32.708 to 31.020");
  move.change = 0;
  EXPECT_EQ(MoveText(move), "stays at 31.020");
}

TEST(SentencesTest, DivergencesRiseFromZeroInNats) {
  EXPECT_EQ(MoveText({.task = "divergence:t", .figure = "kld", .value = 2.5e-3, .change = 2.5e-3, .interval = {}}),
            "rises by 2.50e-03 nats per token, from 0 to 2.50e-03");
}

TEST(SentencesTest, ChangesKeepTheirSign) {
  const Json change{{"value", 2.5}, {"low", -1.5}, {"high", 6.5}};
  EXPECT_EQ(SignedText("perplexity:t", "perplexity", change), "+2.5 [-1.5, +6.5]");
  EXPECT_EQ(SignedText("perplexity:t", "perplexity", {{"value", 2.5}, {"low", nullptr}, {"high", nullptr}}), "+2.500");
}

TEST(SentencesTest, EstimatesHaveTheirError) {
  EXPECT_EQ(EstimateText(6.0, 0.5), "6.00 +/- 0.50");
  EXPECT_EQ(EstimateText(6.0, NAN), "6");
}

TEST(SentencesTest, RangesAreSingularOrPlural) {
  EXPECT_EQ(RangeText(2, 2, "token"), "token 2");
  EXPECT_EQ(RangeText(2, 3, "token"), "tokens 2 to 3");
  EXPECT_EQ(ContextText({{"first", 1}, {"last", 1}}), "1 token");
  EXPECT_EQ(ContextText({{"first", 4}, {"last", 7}}), "4 to 7 tokens");
}

TEST(SentencesTest, EvaluationsNameModelPlanAndCache) {
  EXPECT_EQ(EvaluatedText({{"model", "m"}, {"plan", "f32"}}), "m");
  EXPECT_EQ(EvaluatedText({{"model", "m"}, {"plan", "q=int4/token"}, {"cache", "first=4"}, {"executed", true}}),
            "m under q=int4/token with cache first=4 (executed)");
}

}  // namespace
}  // namespace tare::sentences_test
