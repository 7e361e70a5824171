// SPDX-License-Identifier: Apache-2.0
// Perplexity against log-probabilities in double, from the golden logits, and from the model's own if windows cut the
// context; and the embedded pair's figure against transformers. sequences_test.cc checks which tokens are scored.
// In the released build alone: it computes the embedded pair's figures, ten times as long under sanitizers.
#include "experiments/tasks/perplexity.h"

#include <cmath>
#include <fstream>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/significance/mean_error.h"
#include "experiments/text/tokenizer/tokenizer.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "tests/support/call.h"
#include "tests/support/checkpoint.h"
#include "tests/support/logits.h"

namespace tare::perplexity_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// -log softmax(logits)[target], nats.
double Loss(std::span<const float> logits, int32_t target) {
  const double largest = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float x : logits) sum += std::exp(x - largest);
  return largest + std::log(sum) - logits[static_cast<size_t>(target)];
}

Json Measure(Model& model, const std::vector<ScoredSequence>& sequences, const Progress& progress = {}) {
  return MeasurePerplexity(model, {}, sequences, {}, progress).figures;
}

TokenInput Ids(std::vector<std::vector<int32_t>> rows) {
  return {.kind = TokenInput::Kind::kIds, .sequences = std::move(rows)};
}

TEST(PerplexityTest, IsTheMeanOfTheGoldenLosses) {
  for (const char* name : kGoldenCheckpoints) {
    const Safetensors expected(GoldenFolder(name) / "expected.safetensors");
    Model model(GoldenFolder(name));
    const auto logits = ValuesOf<float>(expected, "logits");
    const auto V = static_cast<size_t>(model.config().vocabulary);
    std::vector<double> losses;
    size_t row = 0;
    for (const std::vector<int32_t>& ids : GoldenRows(name)) {
      for (size_t t = 0; t < ids.size(); ++t, ++row) {
        if (t + 1 < ids.size()) losses.push_back(Loss(std::span(logits).subspan(row * V, V), ids[t + 1]));
      }
    }
    double mean = 0, largest = 0;
    for (const double loss : losses) mean += loss / static_cast<double>(losses.size());
    for (const float x : logits) largest = std::max(largest, std::abs(double{x}));
    // Logits are off by 2e-5 of the largest, a loss by twice that.
    const double bound = 4e-5 * largest;
    const TokenInput input =
        LoadTokenInput(GoldenFolder(name) / "expected.safetensors", GoldenFolder(name), model.config().vocabulary);
    const Json result = Measure(model, CutSequences(input, model.config(), {}));
    const size_t count = losses.size(), of_window = count / 2;
    EXPECT_EQ(result["tokens"], count);
    EXPECT_EQ(result["windows"], 2);
    EXPECT_NEAR(result["nll"].get<double>(), mean, bound) << name;
    EXPECT_NEAR(result["perplexity"].get<double>(), std::exp(mean), bound * 1.01 * std::exp(mean)) << name;
    EXPECT_TRUE(result["nll_stderr"].is_null()) << "two windows";
    const double second = std::accumulate(losses.begin() + of_window, losses.end(), 0.0);
    EXPECT_NEAR(result["window_losses"][1].get<double>(), second, of_window * bound) << name;
    EXPECT_EQ(result["window_tokens"], (std::vector{of_window, of_window}));
  }
}

// Each window alone, scored by hand: the sum over windows of what none before held.
TEST(PerplexityTest, WindowsAreScoredByTheirOwnContext) {
  Model model(GoldenFolder("diffllama-gqa"));
  std::vector<std::vector<int32_t>> rows = GoldenRows("diffllama-gqa");
  rows[1].resize(11);
  constexpr size_t kWindow = 16, kStride = 5;
  double sum = 0;
  int64_t tokens = 0;
  for (const std::vector<int32_t>& row : rows) {
    size_t scored = 1;  // nothing predicts a row's first token
    for (size_t begin = 0; scored < row.size(); begin += kStride) {
      const size_t end = std::min(begin + kWindow, row.size());
      const size_t start = end - std::min(kWindow, row.size());
      TokenBatch batch;
      batch.Add(0, std::span(row).subspan(start, end - start));
      const std::vector<float> logits = LogitsOf(model, batch);
      for (; scored < end; ++scored, ++tokens)
        sum += Loss(std::span(logits).subspan((scored - 1 - start) * 131, 131), row[scored]);
    }
  }
  EXPECT_EQ(tokens, 36 + 10);
  const Json result = Measure(model, CutSequences(Ids(rows), model.config(), {.window = kWindow, .stride = kStride}));
  EXPECT_EQ(result["tokens"], tokens);
  EXPECT_NEAR(result["nll"].get<double>(), sum / static_cast<double>(tokens), 1e-4);
}

// Twenty-four rows, so that the losses at one position have a sample of windows.
TEST(PerplexityTest, ByPositionIsTheMeanOverItsTokens) {
  Model model(GoldenFolder("llama-mha"));
  std::vector<std::vector<int32_t>> rows;
  for (int i = 0; i < 24; ++i) {
    rows.push_back(GoldenRows("llama-mha")[static_cast<size_t>(i) % 2]);
    rows.back().resize(static_cast<size_t>(6 + i % 6));
    rows.back()[0] = 7 + i;
  }
  std::vector<double> first, third;  // of one token before, and of four to seven
  double sum = 0, count = 0;
  const auto V = static_cast<size_t>(model.config().vocabulary);
  for (const std::vector<int32_t>& row : rows) {
    TokenBatch batch;
    batch.Add(0, row);
    const std::vector<float> logits = LogitsOf(model, batch);
    const auto loss = [&](size_t t) { return Loss(std::span(logits).subspan((t - 1) * V, V), row[t]); };
    first.push_back(loss(1));
    for (size_t t = 4; t < std::min<size_t>(8, row.size()); ++t) sum += loss(t), count += 1;
  }
  double mean = 0;
  for (const double loss : first) mean += loss / 24;
  const Json result = Measure(model, CutSequences(Ids(rows), model.config(), {}));
  const Json& list = result["by_position"];
  ASSERT_EQ(list.size(), 4u);  // 1, 2 to 3, 4 to 7, 8 to 10
  EXPECT_EQ(list[0]["last"], 1);
  EXPECT_EQ(list[0]["tokens"], 24);
  EXPECT_NEAR(list[0]["nll"].get<double>(), mean, 1e-4);
  EXPECT_NEAR(list[0]["nll_stderr"].get<double>(), ErrorOfMean(first, Units::kOfText)->error, 1e-4);
  EXPECT_EQ(list[2]["first"], 4);
  EXPECT_EQ(list[2]["last"], 7);
  EXPECT_EQ(list[2]["tokens"], count);
  EXPECT_NEAR(list[2]["nll"].get<double>(), sum / count, 1e-4);
  EXPECT_TRUE(list[3]["nll_stderr"].is_null()) << "twelve windows";
}

TEST(PerplexityTest, NothingToPredictIsRefused) {
  Model model(GoldenFolder("llama-mha"));
  const auto sequences = CutSequences(Ids({{5}, {6}}), model.config(), {});
  EXPECT_THAT(Call([&] { MeasurePerplexity(model, {}, sequences, {}, {}); }),
              ThrowsMessage<Error>(HasSubstr("no token to predict")));
}

TEST(PerplexityTest, ThreadsAndProgress) {
  std::vector<std::vector<int32_t>> rows;
  for (int i = 0; i < 60; ++i) rows.push_back(GoldenRows("llama-old-config")[static_cast<size_t>(i) % 2]);
  std::vector<double> results;
  for (const int threads : {1, 5}) {
    SetThreads(threads);
    Model model(GoldenFolder("llama-old-config"));
    std::vector<std::pair<int64_t, int64_t>> reports;
    const Progress progress = [&](int64_t done, int64_t total, const char* unit) {
      EXPECT_STREQ(unit, "tokens");
      reports.emplace_back(done, total);
    };
    results.push_back(Measure(model, CutSequences(Ids(rows), model.config(), {}), progress)["nll"]);
    EXPECT_THAT(reports, ElementsAre(std::pair(55 * 37, 60 * 37), std::pair(60 * 37, 60 * 37)));
  }
  SetThreads(0);
  EXPECT_EQ(results[0], results[1]);
}

// experiments/pair/training/reference.txt: 29.332 and 31.154 over 20,440 tokens, printed to three places.
TEST(PerplexityTest, TheEmbeddedPairsFiguresAreTransformers) {
  const std::pair<const char*, double> expected[] = {{"novels-standard", 29.332}, {"novels-differential", 31.154}};
  const TemporaryFolder folder;
  PutFile(folder / "text", GetFile(PairFolder("heldout.txt")).substr(0, 120000));
  for (const auto& [name, perplexity] : expected) {
    Model model(PairFolder(name));
    const TokenInput input = LoadTokenInput(folder / "text", PairFolder(name), model.config().vocabulary);
    const Json result = Measure(model, CutSequences(input, model.config(), {.limit = 40, .from = TakeFrom::kStart}));
    EXPECT_EQ(result["tokens"], 20440) << name;
    EXPECT_NEAR(result["perplexity"].get<double>(), perplexity, 0.001) << name;
  }
}

// Finite weights whose products are not: no figure, but an error.
TEST(PerplexityTest, LossesThatAreNotFiniteAreRefused) {
  const TemporaryFolder folder;
  ScaleFinalNorm(GoldenFolder("llama-mha"), 127, folder / "m");
  Model model(folder / "m");
  const auto sequences = CutSequences(Ids(GoldenRows("llama-mha")), model.config(), {});
  EXPECT_THAT(Call([&] { MeasurePerplexity(model, {}, sequences, {}, {}); }),
              ThrowsMessage<Error>(HasSubstr("perplexity: the mean loss is")));
}

// e to a loss of more than 709 nats is infinite, which JSON writes as null; the loss is not.
TEST(PerplexityTest, AFiniteLossIsGivenWhereItsPerplexityIsInfinite) {
  const TemporaryFolder folder;
  ScaleFinalNorm(GoldenFolder("llama-mha"), 14, folder / "m");
  Model model(folder / "m");
  const auto sequences = CutSequences(Ids(GoldenRows("llama-mha")), model.config(), {});
  const Json figures = MeasurePerplexity(model, {}, sequences, {}, {}).figures;
  EXPECT_GT(figures.at("nll").get<double>(), 710);
  EXPECT_TRUE(std::isfinite(figures.at("nll").get<double>()));
  const Json read = Json::parse(figures.dump());
  EXPECT_TRUE(read.at("perplexity").is_null());
  ASSERT_TRUE(ReadFigures(read, kPerplexityTask));
  EXPECT_EQ(ReadFigures(read, kPerplexityTask)->list[0].value, std::numeric_limits<double>::infinity());
}

// LongPPL against its definition, computed in double from logits of windows and pieces that are run one by one; and on
// texts whose key tokens are known: a number that stands far back is one.
// In the released build alone: it computes the embedded pair's figures, ten times as long under sanitizers.
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
}  // namespace tare::perplexity_test
