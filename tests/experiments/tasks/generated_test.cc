// SPDX-License-Identifier: Apache-2.0
// Answers are those of Generate, token by token; figures are worked by hand.
// In the released build alone: it computes the embedded pair's figures, ten times as long under sanitizers.
#include "experiments/tasks/choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "quant/base/message.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"
#include "tests/support/golden.h"

namespace tare::generated_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

constexpr const char* kTwoPrompts =
    "{\"prompt\": \"The captain came on\", \"targets\": [\"deck\"], \"kind\": 1}\n"
    "{\"prompt\": \"It was a dark night\", \"targets\": [\"and\"], \"kind\": 2}\n";

class GeneratedTest : public testing::Test {
 protected:
  TaskResult Run(const std::string& lines, const AnswerOptions& answers, const char* plan = "",
                 const char* cache = nullptr) {
    PutFile(folder_ / "items.jsonl", lines);
    const RunTask task = kGenerateTask.read(folder_ / "items.jsonl", model_,
                                            {.windows = {}, .reference = {}, .other_tower = {}, .answers = answers});
    PlanRun run(Plan::Parse(plan), Carrying::kSimulated, ModelSitesOf(model_), {},
                cache ? std::optional(ParseCachePlan(cache)) : std::nullopt);
    return task(model_, run, {});
  }

  std::vector<int32_t> Continued(const char* prompt, const GenerateOptions& options) {
    const Tokenizer tokenizer = Tokenizer::Load(model_.folder());
    std::vector<int32_t> tokens = tokenizer.Encode(prompt);
    tokens.insert(tokens.begin(), tokenizer.bos().value());
    Generation done;
    Generate(model_, {}, tokens, options, {}, [](int32_t) { return true; }, done);
    return done.tokens;
  }

  const TemporaryFolder folder_;
  Model model_{PairFolder("novels-differential")};
};

TEST_F(GeneratedTest, TokensAreThoseOfGenerate) {
  const TaskResult greedy = Run(kTwoPrompts, {.tokens = 12});
  EXPECT_EQ(greedy.records[0]["tokens"], Json(Continued("The captain came on", {.tokens = 12})));
  EXPECT_EQ(greedy.records[1]["tokens"], Json(Continued("It was a dark night", {.tokens = 12})));
  EXPECT_EQ(greedy.figures["cut"], 2);
  EXPECT_EQ(WhyNoErrors(ReadFigures(greedy.figures, kGenerateTask).value()),
            "2 samples are too few for an error: expected 20; try more items");
  EXPECT_EQ(greedy.figures["answer_tokens"], 24);
  const TaskResult cached = Run(kTwoPrompts, {.tokens = 12}, "", "cache_k=int4/token,cache_v=int4/token");
  EXPECT_EQ(cached.records[1]["tokens"],
            Json(Continued("It was a dark night",
                           {.cache = ParseCachePlan("cache_k=int4/token,cache_v=int4/token"), .tokens = 12})));
  EXPECT_NE(cached.records, greedy.records);
  const TaskResult drawn = Run(kTwoPrompts, {.tokens = 12, .temperature = 0.9, .seed = 3});
  const uint64_t first = drawn.records[0]["seed"], second = drawn.records[1]["seed"];
  EXPECT_NE(first, second) << "items share no draws";
  EXPECT_EQ(drawn.records[1]["tokens"],
            Json(Continued("It was a dark night", {.tokens = 12, .sampling = {.temperature = 0.9, .seed = second}})));
  EXPECT_THAT(HowMeasured(drawn.figures, kGenerateTask), HasSubstr("2 answers, drawn with seed 3, with <s>"));
}

// An f32 rule changes nothing; one for attention logits cannot decode over a cache.
TEST_F(GeneratedTest, APlanOfMapsPassesTheWholeText) {
  const TaskResult plain = Run(kTwoPrompts, {.tokens = 6});
  const TaskResult eight = Run(kTwoPrompts, {.tokens = 6}, "attn_logits=int8/row");
  EXPECT_EQ(plain.figures["decodes"], true);
  EXPECT_EQ(eight.figures["decodes"], false);
  EXPECT_THAT(HowMeasured(eight.figures, kGenerateTask), HasSubstr("the whole text passed for each token"));
  EXPECT_EQ(eight.records[0]["tokens"].size(), 6u);
  const TaskResult coarse = Run(kTwoPrompts, {.tokens = 6}, "attn_logits=int4/tensor");
  EXPECT_NE(coarse.records, plain.records);
}

TEST_F(GeneratedTest, AnAnswerEndsBeforeAStopText) {
  const std::string whole = Run(kTwoPrompts, {.tokens = 12}).records[0]["answer"];
  ASSERT_GT(whole.size(), 8u);
  const Json stop = whole.substr(5, 3);
  const TaskResult result =
      Run("{\"prompt\": \"The captain came on\", \"targets\": [\"deck\"], \"max_tokens\": 12, "
          "\"stop\": " +
              stop.dump() + "}\n",
          {});
  EXPECT_EQ(result.records[0]["answer"], whole.substr(0, whole.find(stop.get<std::string>())));
  EXPECT_EQ(result.records[0]["end"], "stop");
  EXPECT_LT(result.records[0]["tokens"].size(), 12u);
  EXPECT_EQ(result.figures["cut"], 0);
}

TEST_F(GeneratedTest, TheSmallerOfTwoLimitsHolds) {
  const char* const line = "{\"prompt\": \"It was\", \"targets\": [\"a\"], \"max_tokens\": 4}\n";
  EXPECT_EQ(Run(line, {}).records[0]["tokens"].size(), 4u);
  EXPECT_EQ(Run(line, {.tokens = 9}).records[0]["tokens"].size(), 4u);
  EXPECT_EQ(Run(line, {.tokens = 2}).records[0]["tokens"].size(), 2u);
}

TEST_F(GeneratedTest, WhatDoesNotFitIsRefusedFirst) {
  EXPECT_THAT(Call([&] { Run(kTwoPrompts, {.tokens = 2048}); }),
              ThrowsMessage<Error>(HasSubstr("items.jsonl: line 1: got a prompt of ")));
  EXPECT_THAT(Call([&] { Run(kTwoPrompts, {.top_p = 2}); }), ThrowsMessage<Error>(HasSubstr("--top-p: got 2")));
}

// right 1 0 1, f1 1 0 0.5: mean 0.5, s = 0.5, error 0.5 / sqrt 3. The first two share a sample, sums 1 and 0.5 of 2 and
// 1 items: deviations 0 and 0.
TEST(ScoreAnswers, FiguresAreOfItemsOrSamples) {
  std::vector<PromptItem> items(3);
  for (size_t i = 0; i < items.size(); ++i) items[i].line = i + 1;
  items[0].targets = {"red"};
  items[1].targets = {"blue"};
  items[2].targets = {"green"};
  items[2].score = AnswerScore::kContains;
  const std::vector<Answer> answers{{.tokens = {1}, .text = " Red.", .end = AnswerEnd::kStop, .most_tokens = 4},
                                    {.tokens = {1, 2}, .text = "x", .end = AnswerEnd::kTokens, .most_tokens = 8},
                                    {.tokens = {3}, .text = "green so very", .end = AnswerEnd::kEndOfText}};
  const Json alone = ScoreAnswers(items, answers).figures;
  EXPECT_EQ(alone["outcomes"], "101");
  EXPECT_EQ(alone["outcomes_exact"], "100");
  EXPECT_DOUBLE_EQ(alone["acc"], 2.0 / 3);
  EXPECT_DOUBLE_EQ(alone["f1"], 0.5);
  EXPECT_DOUBLE_EQ(alone["f1_stderr"], 0.5 / std::sqrt(3));
  EXPECT_EQ(alone["cut"], 1);
  EXPECT_EQ(alone["most_tokens"], 8);
  EXPECT_FALSE(alone.contains("sample_items"));
  items[0].keys = items[1].keys = Json{{"sample", 7}};
  const TaskResult shared = ScoreAnswers(items, answers);
  EXPECT_EQ(shared.figures["mean_counts"], Json::parse("[2.0, 1.0]"));
  EXPECT_DOUBLE_EQ(shared.figures["f1_stderr"], 0);
  EXPECT_EQ(shared.figures["sample_right"], Json::parse("[1.0, 1.0]"));
  EXPECT_EQ(shared.records[0]["item"]["sample"], 7);
  const std::optional<Figures> figures = ReadFigures(shared.figures, kGenerateTask);
  ASSERT_TRUE(figures);
  EXPECT_STREQ(figures->list[0].keys.name, "acc");
  EXPECT_EQ(figures->list[4].windows.sums, (std::vector<double>{1, 0.5}));
  for (size_t i = 1; i < figures->list.size(); ++i) EXPECT_EQ(figures->list[i].keys.in_tables, nullptr) << i;
}

}  // namespace
}  // namespace tare::generated_test
