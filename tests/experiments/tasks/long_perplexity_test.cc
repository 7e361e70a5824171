// SPDX-License-Identifier: Apache-2.0
// LongPPL against its definition, computed in double from logits of windows and pieces that are run one by one; and on
// texts whose key tokens are known: a number that stands far back is one.
// In the released build alone: it computes the embedded pair's figures, ten times as long under sanitizers.
#include "experiments/tasks/long_perplexity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "experiments/text/tokenizer/tokenizer.h"
#include "quant/base/error.h"
#include "tests/support/call.h"
#include "tests/support/checkpoint.h"
#include "tests/support/logits.h"

namespace tare::long_perplexity_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// -ln p of the last token given the others, nats.
double LossOfLast(Model& model, std::span<const int32_t> tokens) {
  TokenBatch batch;
  batch.Add(0, tokens.first(tokens.size() - 1));
  const std::vector<float> logits = LogitsOf(model, batch);
  const auto V = static_cast<size_t>(model.config().vocabulary);
  const std::span<const float> last = std::span(logits).last(V);
  const double largest = *std::ranges::max_element(last);
  double sum = 0;
  for (const float x : last) sum += std::exp(x - largest);
  return largest + std::log(sum) - last[static_cast<size_t>(tokens.back())];
}

std::vector<int32_t> Counting(int32_t n) {
  std::vector<int32_t> tokens(static_cast<size_t>(n));
  for (int32_t i = 0; i < n; ++i) tokens[static_cast<size_t>(i)] = i;
  return tokens;
}

TEST(LongPerplexityTest, PiecesScoreEachTokenOnceFromAShortContext) {
  const std::vector<ScoredSequence> pieces = ShortPieces({.tokens = Counting(15)}, 8);  // pieces of two
  ASSERT_EQ(pieces.size(), 4u);
  EXPECT_THAT(pieces[0].tokens, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_THAT(pieces[1].tokens, ElementsAre(2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
  EXPECT_THAT(pieces[3].tokens, ElementsAre(6, 7, 8, 9, 10, 11, 12, 13, 14));
  for (const ScoredSequence& piece : pieces) EXPECT_EQ(piece.first_target, 8);
}

TEST(LongPerplexityTest, PiecesBeginWhereTheWindowDoes) {
  EXPECT_TRUE(ShortPieces({.tokens = Counting(8)}, 8).empty());
  const std::vector<ScoredSequence> late = ShortPieces({.tokens = Counting(15), .first_target = 13}, 8);
  ASSERT_EQ(late.size(), 1u);
  EXPECT_THAT(late[0].tokens, ElementsAre(5, 6, 7, 8, 9, 10, 11, 12, 13, 14));
  EXPECT_EQ(ShortPieces({.tokens = Counting(5)}, 1).size(), 4u) << "a quarter of one token is one";
}

// Prose with a needle at its beginning and the question for it at its end, as the pair was trained on.
struct Needle : testing::Test {
  static constexpr int64_t kShort = 64;
  const std::filesystem::path folder = PairFolder("novels-differential");
  const std::string answer = " 4071";

  std::string Text() const {
    std::ifstream file(PairFolder("nowhere.txt"));
    std::string prose(700, ' ');
    file.seekg(20'000);
    file.read(prose.data(), std::ssize(prose));
    return "The magic number of Paris is" + answer + ".\n" + prose.substr(prose.find(' ')) +
           "\nWhat is the magic number of Paris? It is" + answer;
  }
  ScoredSequence Window(const Model& model) const {
    const TemporaryFolder work;
    std::ofstream(work / "needle.txt") << Text();
    return CutSequences(LoadTokenInput(work / "needle.txt", folder, model.config().vocabulary), model.config(), {})
        .at(0);
  }
};

TEST_F(Needle, KeyTokensFollowTheDefinition) {
  Model model(folder);
  const ScoredSequence window = Window(model);
  const int64_t n = std::ssize(window.tokens);
  ASSERT_GT(n, 3 * kShort);
  const std::vector<bool> key = KeyTokens(model, {window}, kShort, {});
  ASSERT_EQ(std::ssize(key), n - kShort);
  const std::span<const int32_t> tokens = window.tokens;
  int64_t keys = 0;
  for (int64_t i = kShort; i < n; ++i) {
    keys += key[static_cast<size_t>(i - kShort)] ? 1 : 0;
    if (i < n - 24 && i % 7 != 0) continue;                            // each costs two passes
    const int64_t begin = (i - kShort) / (kShort / 4) * (kShort / 4);  // of the piece that scores i
    const double all = LossOfLast(model, tokens.first(static_cast<size_t>(i + 1)));
    const double few =
        LossOfLast(model, tokens.subspan(static_cast<size_t>(begin), static_cast<size_t>(i + 1 - begin)));
    EXPECT_EQ(key[static_cast<size_t>(i - kShort)], few - all > 2 && all < 2) << i << ": " << few << " and " << all;
  }
  // The answer's digits are what only the beginning tells.
  for (int64_t i = n - 4; i < n; ++i) EXPECT_TRUE(key[static_cast<size_t>(i - kShort)]) << n - i << " from the end";
  EXPECT_LT(keys, n / 10);
}

TEST_F(Needle, TheFigureIsOfKeyTokensThatThePlanDoesNotChoose) {
  const TemporaryFolder work;
  std::ofstream(work / "needle.txt") << Text();
  Model model(folder);
  const ScoredSequence window = Window(model);
  const std::vector<bool> key = KeyTokens(model, {window}, kShort, {});
  double sum = 0;
  int64_t keys = 0;
  for (size_t i = 0; i < key.size(); ++i) {
    if (!key[i]) continue;
    sum += LossOfLast(model, std::span(window.tokens).first(i + kShort + 1));
    ++keys;
  }
  const auto tasks = ReadTasks(ParseTasks("longppl=" + (work / "needle.txt").string()), model,
                               {.windows = {.short_context = kShort}, .reference = {}, .other_tower = {}});
  const auto under = [&](const char* plan) {
    PlanRun run(Plan::Parse(plan), Carrying::kSimulated, ModelSitesOf(model));
    return tasks.at(0).run(model, run, {}).figures;
  };
  const Json figures = under("f32"), coarse = under("attn_logits=int4/tensor");
  EXPECT_EQ(figures["tokens"], keys);
  EXPECT_EQ(figures["of_scored"], key.size());
  EXPECT_EQ(figures["short_context"], kShort);
  EXPECT_NEAR(figures["longppl"].get<double>(), std::exp(sum / static_cast<double>(keys)), 1e-4);
  EXPECT_EQ(coarse["tokens"], keys);
  EXPECT_GT(coarse["longppl"], figures["longppl"]);
}

TEST_F(Needle, WhatCannotBeMeasuredIsRefused) {
  const TemporaryFolder work;
  std::ofstream(work / "needle.txt") << Text();
  std::ofstream(work / "plain.txt") << "It was a bright day, and the birds sang in the trees of the old garden.\n";
  Model model(folder);
  const auto run = [&](const char* name, const WindowOptions& windows) {
    const auto tasks = ReadTasks(ParseTasks("longppl=" + (work / name).string()), model,
                                 {.windows = windows, .reference = {}, .other_tower = {}});
    PlanRun plan(Plan::Parse("f32"), Carrying::kSimulated, ModelSitesOf(model));
    tasks.at(0).run(model, plan, {});
  };
  EXPECT_THAT(
      Call([&] { run("needle.txt", {}); }),
      ThrowsMessage<Error>(HasSubstr("longppl: got windows of 512 positions, expected more than the short context "
                                     "of 4096; try a longer --window or a smaller --short-context")));
  EXPECT_THAT(Call([&] { run("plain.txt", {.short_context = 20}); }),
              ThrowsMessage<Error>(HasSubstr("longppl: got no key token among")));
}

}  // namespace
}  // namespace tare::long_perplexity_test
