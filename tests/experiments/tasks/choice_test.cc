// SPDX-License-Identifier: Apache-2.0
// Log-likelihoods of the embedded pair's items against transformers, with and without shared contexts; answers,
// accuracies and their errors from made-up labels.
// In the released build alone: it computes the embedded pair's figures, ten times as long under sanitizers.
#include <cmath>
#include <ranges>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "experiments/tasks/choice.h"
#include "experiments/tasks/items/lines.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "tests/support/call.h"
#include "tests/support/checkpoint.h"
#include "tests/support/golden.h"
#include "tests/support/logits.h"

namespace tare::choice_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr size_t kItems = 12;

std::vector<ChoiceItem> Items(const std::string& set, size_t limit = kItems) {
  return LoadLines<ParseChoiceItem>(PairFolder(set + ".jsonl"), limit);
}

const Tokenizer& PairTokenizer() {
  static const Tokenizer tokenizer = Tokenizer::Load(PairFolder("novels-standard"));
  return tokenizer;
}

EndingScores Measure(Model& model, ContextSharing sharing, const std::vector<ChoiceItem>& items,
                     const Progress& progress = {}, const std::optional<CachePlan>& cache = {}) {
  return ScoreEndings(model, {}, sharing, items, PairTokenizer(), PairTokenizer().bos(), cache, progress);
}

std::vector<double> LogLikelihoodsOf(const EndingScores& scores) {
  std::vector<double> all;
  for (const ScoredEnding& ending : scores | std::views::join) all.push_back(ending.log_likelihood);
  return all;
}

class PairTest : public testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(PairTest, LogLikelihoodsAreTransformers) {
  const auto [name, set] = GetParam();
  Model model(PairFolder(std::string("novels-") + name));
  const auto expected = ReadJson(std::filesystem::path(TARE_SOURCE_DIR) / "tests/data/pair" /
                                 (std::string(set) + "-expected-" + name + ".json"));
  for (const ContextSharing sharing : {ContextSharing::kAllowed, ContextSharing::kForbidden}) {
    int64_t reported = 0;
    const EndingScores scores = Measure(model, sharing, Items(set), [&](int64_t done, int64_t total, const char* unit) {
      EXPECT_GT(done, reported);
      EXPECT_EQ(total, 12);
      EXPECT_STREQ(unit, "items");
      reported = done;
    });
    EXPECT_EQ(reported, 12);
    ASSERT_EQ(scores.size(), kItems);
    double worst = 0;
    for (size_t i = 0; i < kItems; ++i) {
      ASSERT_EQ(scores[i].size(), expected["items"][i].size());
      for (size_t e = 0; e < scores[i].size(); ++e) {
        worst = std::max(worst, std::abs(scores[i][e].log_likelihood - expected["items"][i][e].get<double>()));
      }
    }
    EXPECT_LT(worst, 1e-3) << (sharing == ContextSharing::kAllowed ? "shared" : "not shared");
  }
}

INSTANTIATE_TEST_SUITE_P(Embedded, PairTest,
                         testing::Combine(testing::Values("standard", "differential"),
                                          testing::Values("continuations", "needles-1", "needles-4")),
                         [](const auto& test) {
                           std::string name = std::string(std::get<0>(test.param)) + "_" + std::get<1>(test.param);
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

// Endings fork their context's cache: in f32 that changes nothing but the order of sums, in few bits it does.
TEST(ChoiceTest, ThroughCaches) {
  Model model(PairFolder("novels-differential"));
  const std::vector<ChoiceItem> items = Items("needles-1", 2);
  const auto measured = [&](const std::optional<CachePlan>& cache) {
    return LogLikelihoodsOf(Measure(model, ContextSharing::kAllowed, items, {}, cache));
  };
  const std::vector<double> plain = measured({}), f32 = measured(CachePlan{}),
                            int4 = measured(ParseCachePlan("cache_k=int4/token,cache_v=int4/token,last=2"));
  double moved = 0;
  for (size_t i = 0; i < plain.size(); ++i) {
    EXPECT_NEAR(f32[i], plain[i], 1e-3);
    moved = std::max(moved, std::abs(int4[i] - plain[i]));
  }
  EXPECT_GT(moved, 1e-2);
}

// Sums over each ending of the whole sequence's log-probabilities, in double.
TEST(ChoiceTest, IsTheSumOverTheEndingsTokens) {
  Model model(PairFolder("novels-standard"));
  const ChoiceItem item = Items("continuations", 1)[0];
  const EncodedChoice encoded = EncodeChoice(item, PairTokenizer());
  for (const std::optional<int32_t> bos : {PairTokenizer().bos(), std::optional<int32_t>()}) {
    for (const ContextSharing sharing : {ContextSharing::kAllowed, ContextSharing::kForbidden}) {
      const EndingScores scores = ScoreEndings(model, {}, sharing, {item}, PairTokenizer(), bos, {}, {});
      for (size_t e = 0; e < encoded.endings.size(); ++e) {
        std::vector<int32_t> tokens;
        if (bos) tokens.push_back(*bos);
        const size_t first = tokens.size() + encoded.endings[e].first_scored;
        tokens.insert(tokens.end(), encoded.endings[e].tokens.begin(), encoded.endings[e].tokens.end());
        TokenBatch batch;
        batch.Add(0, tokens);
        const std::vector<float> logits = LogitsOf(model, batch);
        double sum = 0;
        for (size_t t = first; t < tokens.size(); ++t) {
          double total = 0;
          for (size_t v = 0; v < 2048; ++v) total += std::exp(double{logits[(t - 1) * 2048 + v]});
          sum += logits[(t - 1) * 2048 + static_cast<size_t>(tokens[t])] - std::log(total);
        }
        EXPECT_NEAR(scores[0][e].log_likelihood, sum, 1e-3) << "ending " << e;
        EXPECT_EQ(scores[0][e].characters, encoded.endings[e].characters);
      }
    }
  }
}

int Best(const std::vector<ScoredEnding>& endings, bool normed) {
  size_t best = 0;
  const auto score = [&](size_t e) {
    return endings[e].log_likelihood / (normed ? static_cast<double>(endings[e].characters) : 1.0);
  };
  for (size_t e = 1; e < endings.size(); ++e) {
    if (score(e) > score(best)) best = e;
  }
  return static_cast<int>(best);
}

// Labels made up so that 3 of 5 are right by the sum and, where the two answers differ, others by the mean a character.
TEST(ChoiceTest, AccuraciesAndTheirErrorsFollowTheLabels) {
  Model model(PairFolder("novels-standard"));
  std::vector<ChoiceItem> items = Items("continuations", 5);
  // An ending that is long and likely a character loses by its sum: the first ending and the same again, repeated.
  items[4].endings[1] = items[4].endings[0] + ", " + items[4].endings[0] + ", " + items[4].endings[0];
  const EndingScores scores = Measure(model, ContextSharing::kAllowed, items);
  int norm = 0;
  for (size_t i = 0; i < 5; ++i) {
    items[i].label = (Best(scores[i], false) + (i < 3 ? 0 : 1)) % 4;
    norm += Best(scores[i], true) == items[i].label;
  }
  const auto [figures, records, of_text] = Accuracies(items, scores);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(records[i]["answer"], Best(scores[i], false));
    EXPECT_EQ(records[i]["answer_norm"], Best(scores[i], true));
  }
  EXPECT_EQ(figures["n"], 5);
  EXPECT_DOUBLE_EQ(figures["acc"].get<double>(), 0.6);
  // s^2 = sum (x - 0.6)^2 / 4 = (3 * 0.16 + 2 * 0.36) / 4 = 0.3
  EXPECT_NEAR(figures["acc_stderr"].get<double>(), std::sqrt(0.3 / 5), 1e-15);
  EXPECT_DOUBLE_EQ(figures["acc_norm"].get<double>(), norm / 5.0);
  const double p = norm / 5.0;
  EXPECT_NEAR(figures["acc_norm_stderr"].get<double>(),
              std::sqrt((norm * (1 - p) * (1 - p) + (5 - norm) * p * p) / 4 / 5), 1e-15);
  EXPECT_EQ(records[3]["label"], items[3].label);
  EXPECT_EQ(records[3]["line"], 4);
  EXPECT_EQ(figures["outcomes"], "11100");
}

TEST(ChoiceTest, TheReportedAccuracyFollowsTheEndings) {
  const auto of = [](std::vector<std::string> contexts, std::vector<std::string> endings) {
    return std::string(ReportedAccuracy({{.contexts = std::move(contexts), .endings = std::move(endings)}}));
  };
  EXPECT_EQ(of({"It was"}, {"a cold day", "late"}), "acc_norm");
  EXPECT_EQ(of({"The number is"}, {"1234", " 99 "}), "acc");
  EXPECT_EQ(of({"Answer:"}, {"A", "B"}), "acc");
  EXPECT_EQ(of({"Ann met", "Bob met"}, {"a friend there", "a friend there"}), "acc");
  EXPECT_STREQ(ReportedAccuracy(Items("continuations", 5)), "acc_norm");
  EXPECT_STREQ(ReportedAccuracy(Items("needles-4", 5)), "acc");
}

// The first of equals, as numpy's argmax; and characters, not bytes, divide.
TEST(ChoiceTest, EqualEndingsGiveTheFirstAndCharactersDivide) {
  Model model(PairFolder("novels-standard"));
  ChoiceItem item = Items("continuations", 1)[0];
  item.endings = {"no, \xc3\xa9t\xc3\xa9", "no, \xc3\xa9t\xc3\xa9", "no, \xc3\xa9t\xc3\xa9"};
  item.label = 0;
  const auto [figures, records, of_text] = Accuracies({item}, Measure(model, ContextSharing::kAllowed, {item}));
  EXPECT_EQ(records[0]["answer"], 0);
  EXPECT_EQ(records[0]["answer_norm"], 0);
  EXPECT_EQ(records[0]["characters"][0], 7);
  EXPECT_EQ(figures["acc"], 1.0);
  EXPECT_EQ(figures["acc_stderr"], 0.0);  // of one item there is no deviation
}

TEST(ChoiceTest, SameBitsOnAnyNumberOfThreads) {
  std::vector<double> first;
  for (const int threads : {1, 2, 5}) {
    SetThreads(threads);
    Model model(PairFolder("novels-differential"));
    const std::vector<double> all = LogLikelihoodsOf(Measure(model, ContextSharing::kAllowed, Items("needles-1", 3)));
    if (first.empty()) first = all;
    EXPECT_EQ(all, first) << threads;
  }
  SetThreads(0);
}

TEST(ChoiceTest, ItemsMustFitThePositions) {
  Model model(PairFolder("novels-standard"));
  std::vector<ChoiceItem> items = Items("continuations", 2);
  for (int i = 0; i < 2100; ++i) items[1].contexts[0] += " and";
  for (const ContextSharing sharing : {ContextSharing::kAllowed, ContextSharing::kForbidden}) {
    EXPECT_THAT(Call([&] { Measure(model, sharing, items); }),
                ThrowsMessage<Error>(HasSubstr("max_position_embeddings 2048")));
  }
  EXPECT_THAT(Call([&] { Measure(model, ContextSharing::kAllowed, {}); }), ThrowsMessage<Error>(HasSubstr("no items")));
}

// Finite weights whose products are not: no answer, but an error.
TEST(ChoiceTest, LikelihoodsThatAreNoNumbersAreRefused) {
  const TemporaryFolder folder;
  ScaleFinalNorm(PairFolder("novels-standard"), 127, folder / "m");
  Model model(folder / "m");
  EXPECT_THAT(Call([&] { Measure(model, ContextSharing::kAllowed, Items("continuations", 2)); }),
              ThrowsMessage<Error>(HasSubstr("item of line 1, ending 0: the log-likelihood is not finite")));
}

// Figures from made-up scores; the scores themselves are tested at the end.
std::vector<ChoiceItem> Items(size_t count, const char* keys = "{}") {
  std::vector<ChoiceItem> items(count);
  for (size_t i = 0; i < count; ++i) items[i].line = i + 1, items[i].keys = Json::parse(keys);
  return items;
}

TEST(LogLikelihood, FiguresAreTheHarnesss) {
  const TaskResult result = LogLikelihoods(Items(3), {{{.log_likelihood = -1, .greedy = true}},
                                                      {{.log_likelihood = -4, .greedy = false}},
                                                      {{.log_likelihood = -2.5}}});
  EXPECT_DOUBLE_EQ(result.figures["acc"], 2.0 / 3);
  EXPECT_NEAR(result.figures["acc_stderr"].get<double>(), std::sqrt(2.0 / 9 / 2), 1e-15);
  EXPECT_DOUBLE_EQ(result.figures["perplexity"], std::exp(2.5));
  EXPECT_EQ(result.figures["outcomes"], "101");
  EXPECT_EQ(result.records[1], Json::parse(R"({"line": 2, "log_likelihood": -4.0, "greedy": false})"));
  const std::optional<Figures> figures = ReadFigures(result.figures, kLogLikelihoodTask);
  ASSERT_TRUE(figures);
  EXPECT_EQ(figures->list[1].windows.sums, (std::vector<double>{1, 4, 2.5}));
  EXPECT_EQ(figures->list[1].windows.counts, (std::vector<double>{1, 1, 1}));
}

TEST(LogLikelihood, EveryContinuationOfALineCounts) {
  const TaskResult result = LogLikelihoods(Items(1), {{{.log_likelihood = -1}, {.log_likelihood = -3}}});
  EXPECT_EQ(result.figures["n"], 2);
  EXPECT_DOUBLE_EQ(result.figures["perplexity"], std::exp(2.0));
  EXPECT_EQ(result.records[1]["line"], 1);
}

TEST(LogLikelihood, ItemsThatShareSamplesAreCountedByThese) {
  const TaskResult result = LogLikelihoods(Items(2, R"({"sample": 7})"), {{{.greedy = true}}, {{.greedy = false}}});
  EXPECT_EQ(result.figures["sample_items"], Json::parse("[2.0]"));
  EXPECT_EQ(result.figures["sample_right"], Json::parse("[1.0]"));
  EXPECT_EQ(result.records[0]["item"]["sample"], 7);
}

auto Scored(const std::vector<ChoiceItem>& items, ContextSharing sharing) {
  Model model(PairFolder("novels-standard"));
  return ScoreEndings(model, {}, sharing, items, PairTokenizer(), PairTokenizer().bos(), {}, {});
}

// Log-likelihoods of transformers in f32 are within 1e-3.
void ExpectLogged(const std::vector<std::vector<ScoredEnding>>& scores, const std::string& task) {
  ForEachLine(HarnessFile("samples_" + task + ".jsonl"), 0, TakeFrom::kStart, [&](const JsonLine& line) {
    const nlohmann::json logged = nlohmann::json::parse(line.text).at("filtered_resps");
    const std::vector<ScoredEnding>& endings = scores.at(line.number - 1);
    const bool single = logged[0].is_string();
    ASSERT_EQ(endings.size(), single ? 1 : logged.size());
    for (size_t e = 0; e < endings.size(); ++e) {
      const nlohmann::json& response = single ? logged : logged[e];
      EXPECT_NEAR(endings[e].log_likelihood, std::stod(response[0].get<std::string>()), 1e-3) << line.where << " " << e;
      EXPECT_EQ(endings[e].greedy, response[1] == "True") << line.where << " " << e;
    }
  });
}

TEST(EndingScores, AreWhatTheHarnessLogged) {
  for (const std::string task : {"hellaswag", "arc_easy", "openbookqa", "piqa", "winogrande", "boolq", "mmlu"}) {
    const std::vector<ChoiceItem> items = LoadLines<ParseChoiceItem>(HarnessFile(task + ".jsonl"));
    for (const ContextSharing sharing : {ContextSharing::kAllowed, ContextSharing::kForbidden})
      ExpectLogged(Scored(items, sharing), task);
  }
  ExpectLogged(Scored(LoadLines<ParseContinuation>(HarnessFile("lambada_openai.jsonl")), ContextSharing::kAllowed),
               "lambada_openai");
}

TEST(EndingScores, AnEmptyContextIsTheBeginningOfAText) {
  ChoiceItem item;
  item.contexts = {""};
  item.endings = {"The captain came on deck"};
  item.between = "";
  const double whole = Scored({item}, ContextSharing::kAllowed)[0][0].log_likelihood;
  EXPECT_EQ(Scored({item}, ContextSharing::kForbidden)[0][0].log_likelihood, whole);
  // log P(ab) = log P(a) + log P(b | a)
  ChoiceItem first = item, rest = item;
  first.endings = {"The captain"};
  rest.contexts = {"The captain"}, rest.endings = {" came on deck"};
  const auto parts = Scored({first, rest}, ContextSharing::kAllowed);
  EXPECT_NEAR(parts[0][0].log_likelihood + parts[1][0].log_likelihood, whole, 1e-3);
  EXPECT_THAT(Call([&] {
                (void)EncodeChoice(item, Tokenizer::LoadFile(TARE_SOURCE_DIR "/tests/data/text/tokenizers/gpt2.json"));
              }),
              ThrowsMessage<Error>(HasSubstr("got an empty context and a tokenizer without <s>")));
}

}  // namespace

}  // namespace tare::choice_test
