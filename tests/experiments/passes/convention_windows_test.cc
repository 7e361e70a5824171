// SPDX-License-Identifier: Apache-2.0
// Windows worked by hand from the tools' rules; perplexities as llama-perplexity printed them, and as transformers
// computes them by the harness's own windows (tests/data/conventions).
// In the released build alone: it computes the embedded pair's figures, ten times as long under sanitizers.
#include "experiments/passes/sequences.h"

#include <cmath>
#include <filesystem>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/tasks/perplexity.h"
#include "quant/base/message.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"
#include "tests/support/golden.h"
#include "tests/support/ids.h"

namespace tare::convention_windows_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<int32_t> Counting(size_t n) {
  std::vector<int32_t> tokens(n);
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

TEST(Convention, AWindowGoesAsFarAsScaledPositions) {
  static std::string said;
  said.clear();
  OnNotice([](const std::string& text) { said += text; });
  const ModelConfig config{.max_positions = 64, .positions_reached = 256};
  CheckWindow(64, 2, config);
  EXPECT_EQ(said, "");
  CheckWindow(256, 2, config);
  EXPECT_THAT(said, testing::HasSubstr("more than max_position_embeddings 64, within the 256"));
  OnNotice(nullptr);
  EXPECT_THAT([&] { CheckWindow(257, 2, config); },
              testing::ThrowsMessage<UsageError>(testing::HasSubstr("got 257, expected 2 to 256")));
}

// "1 10 11|12": 12 is scored, after 1, 10 and 11.
std::vector<std::string> Scored(const std::vector<ScoredSequence>& windows) {
  std::vector<std::string> scored;
  for (const ScoredSequence& w : windows) {
    std::string before;
    for (int64_t t = 0; t < std::ssize(w.tokens); ++t) {
      const std::string token = std::to_string(w.tokens[static_cast<size_t>(t)]);
      if (t >= w.first_target) scored.push_back(before + "|" + token);
      before += (t == 0 ? "" : " ") + token;
    }
  }
  return scored;
}

// Ten tokens, 10 to 19, after <s>, which is 1, in windows of four positions: worked by hand from the tools' code.
TEST(Convention, TokensAreScoredInTheContextsOfTheTool) {
  const Model model(GoldenFolder("llama-mha"));
  TokenInput text{.sequences = {{10, 11, 12, 13, 14, 15, 16, 17, 18, 19}}, .bos = 1, .path = "t.txt", .sha256 = ""};
  const auto scored = [&](Convention convention) {
    return Scored(CutByConvention(text, model, {.window = 4, .convention = convention}).sequences);
  };
  EXPECT_THAT(scored(Convention::kTare), ElementsAre("1|10", "1 10|11", "1 10 11|12",                 //
                                                     "1|13", "1 13|14", "1 13 14|15",                 //
                                                     "1|16", "1 16|17", "1 16 17|18",                 //
                                                     "1 17 18|19"));                                  //
  EXPECT_THAT(scored(Convention::kLlamaCpp), ElementsAre("1 10 11|12", "1 14 15|16"));                // 13 is replaced
  EXPECT_THAT(scored(Convention::kLmEval), ElementsAre("1|1", "1 1|10", "1 1 10|11", "1 1 10 11|12",  //
                                                       "12|13", "12 13|14", "12 13 14|15", "12 13 14 15|16", "15 16|17",
                                                       "15 16 17|18", "15 16 17 18|19"));
  EXPECT_THAT(scored(Convention::kGptq),
              ElementsAre("1|10", "1 10|11", "1 10 11|12", "13|14", "13 14|15", "13 14 15|16"));
  text.bos.reset();  // then nothing is replaced
  EXPECT_THAT(scored(Convention::kLlamaCpp), ElementsAre("10 11 12|13", "14 15 16|17"));
  EXPECT_THAT(scored(Convention::kGptq),
              ElementsAre("10|11", "10 11|12", "10 11 12|13", "14|15", "14 15|16", "14 15 16|17"));
}

// The harness's example: ten tokens, four at a time.
TEST(Convention, RollingWindowsAreTheHarnesss) {
  const std::vector<ScoredSequence> windows = RollingWindows(Counting(10), 99, 4);
  ASSERT_EQ(windows.size(), 3u);
  EXPECT_THAT(windows[0].tokens, ElementsAre(99, 0, 1, 2, 3));
  EXPECT_THAT(windows[1].tokens, ElementsAre(3, 4, 5, 6, 7));
  EXPECT_THAT(windows[2].tokens, ElementsAre(5, 6, 7, 8, 9));
  EXPECT_EQ(windows[0].first_target, 1);
  EXPECT_EQ(windows[1].first_target, 1);
  EXPECT_EQ(windows[2].first_target, 3) << "8 and 9 only";
  EXPECT_THAT(RollingWindows({5}, 99, 4)[0].tokens, ElementsAre(99, 5));
  EXPECT_THAT(RollingWindows({1, 2, 3}, 99, 1)[2].tokens, ElementsAre(2, 3));
  EXPECT_TRUE(RollingWindows({}, 99, 4).empty());
}

// The tokenizer's own end, whichever others end what is generated.
TEST(Convention, PrefixOfTwoEndsIsTheTokenizers) {
  const TemporaryFolder folder;
  for (const char* name : {"config.json", "model.safetensors"})
    std::filesystem::copy(GoldenFolder("llama-gqa") / name, folder / name);
  PutFile(folder / "tokenizer.json", GetFile(TARE_SOURCE_DIR "/tests/data/text/tokenizers/llama3.json"));
  PutFile(folder / "generation_config.json", R"({"eos_token_id": [1, 0]})");
  PutFile(folder / "tokenizer_config.json", R"({"bos_token": null, "eos_token": "<|eot_id|>"})");
  const Model model(folder.path());
  EXPECT_EQ(PrefixToken({}, model), 1);
  EXPECT_EQ(PrefixToken(7, model), 7);
  PutFile(folder / "tokenizer_config.json", "{}");
  EXPECT_THAT(Call([&] { PrefixToken({}, model); }),
              ThrowsMessage<Error>(HasSubstr("no eos_token of the tokenizer and 2 ids as eos_token_id")));
  PutFile(folder / "generation_config.json", R"({"eos_token_id": 5})");
  EXPECT_EQ(PrefixToken({}, model), 5);
}

TEST(Convention, ATokenThatIsOnlyPredictedIsNotRun) {
  const std::vector<ScoredSequence> text{{.tokens = {7, 8, 9}, .only_predicted = 1}, {.tokens = {1, 2}}};
  const TokenBatch batch = BatchOf(text, 0, 2);
  EXPECT_THAT(batch.tokens, ElementsAre(7, 8, 1, 2));
  const PredictedTokens predicted = ScoredTokens(text).In(batch);
  EXPECT_THAT(predicted.targets, ElementsAre(8, 9, 2));
  EXPECT_THAT(predicted.rows, ElementsAre(0, 1, 2));
}

Json Measured(const TaskKind& task, const WindowOptions& windows, const char* plan = "") {
  Model model(PairFolder("novels-standard"));
  const TemporaryFolder folder;  // windows of tools follow each other from the beginning
  PutFile(folder / "heldout.txt", GetFile(PairFolder("heldout.txt")).substr(0, 60000));
  const RunTask run =
      task.read(folder / "heldout.txt", model, {.windows = windows, .reference = {}, .other_tower = {}});
  PlanRun under(Plan::Parse(plan), Carrying::kSimulated, ModelSitesOf(model));
  return run(model, under, {}).figures;
}

struct Expected {
  WindowOptions windows;
  int64_t tokens;
  double perplexity, tolerance;
};

// A token's loss is within 1e-4 of transformers', its mean over hundreds far nearer: perplexities within 1e-4.
// llama-perplexity prints four digits: half a unit more.
TEST(Convention, PerplexitiesAreTheTools) {
  for (const Expected& expected : {
           Expected{{.window = 129, .limit = 5, .convention = Convention::kLlamaCpp}, 320, 26.4652, 1.5e-4},
           Expected{{.limit = 20, .convention = Convention::kLlamaCpp}, 5100, 29.0430, 1.5e-4},
           Expected{{.window = 512, .tokens = 1024, .convention = Convention::kLmEval}, 1024, 28.5427623, 1e-4},
           Expected{{.window = 200, .tokens = 1500, .convention = Convention::kLmEval}, 1500, 29.2628939, 1e-4},
           Expected{{.tokens = 3000, .convention = Convention::kLmEval}, 3000, 36.9036038, 1e-4},
           Expected{{.limit = 5, .convention = Convention::kGptq}, 10235, 40.0454216, 1e-4},
       }) {
    const Json figures = Measured(kPerplexityTask, expected.windows);
    EXPECT_EQ(figures["tokens"], expected.tokens);
    EXPECT_NEAR(figures["perplexity"].get<double>(), expected.perplexity, expected.tolerance);
    EXPECT_EQ(figures["convention"], InfoOf(expected.windows.convention).name);
    EXPECT_THAT(HowMeasured(figures, kPerplexityTask), HasSubstr("by the convention of "));
  }
}

TEST(Convention, DivergenceIsOfTheSameTokens) {
  const WindowOptions windows{.window = 64, .limit = 3, .convention = Convention::kLlamaCpp};
  EXPECT_EQ(Measured(kDivergenceTask, windows, "attn_logits=int4/row")["tokens"], 3 * 31);
}

TEST(Convention, ResultsNameTheirRules) {
  const WindowOptions windows{.window = 64, .convention = Convention::kLlamaCpp};
  const Json rules = kPerplexityTask.convention(windows);
  EXPECT_EQ(rules["window"], 64);
  EXPECT_EQ(rules["convention"]["name"], "llama.cpp");
  EXPECT_EQ(rules["convention"]["scored"], "of each window the tokens behind place N/2 (from 0)");
}

TEST(Convention, WhatAToolDoesNotReadIsRefused) {
  const auto refused = [](const WindowOptions& windows, const char* message) {
    EXPECT_THAT(Call([&] { Measured(kPerplexityTask, windows); }), ThrowsMessage<Error>(HasSubstr(message)));
  };
  refused({.stride = 4, .convention = Convention::kLmEval}, "--stride: got 4, expected 0 with --convention lm-eval");
  refused({.window = 2, .convention = Convention::kLlamaCpp}, "--window: got 2, expected 3 to 2048");
  refused({.window = 2049, .convention = Convention::kLmEval}, "--window: got 2049, expected 1 to 2048");
  refused({.tokens = 1000, .convention = Convention::kLlamaCpp},
          "got 1000 tokens, expected at least 1024, two windows, as llama.cpp does");
  refused({.tokens = 1000, .convention = Convention::kGptq}, "got 1000 tokens, expected at least 2048, one window");
  const TemporaryFolder folder;
  PutManyIds(folder / "ids.safetensors", 1, 50);
  Model model(GoldenFolder("llama-mha"));
  const TokenInput ids = LoadTokenInput(folder / "ids.safetensors", model.folder(), model.config().vocabulary);
  EXPECT_THAT(Call([&] { CutByConvention(ids, model, {.convention = Convention::kLmEval}); }),
              ThrowsMessage<Error>(HasSubstr("--convention lm-eval: got ids, expected a text")));
}

TEST(Convention, NamesAreThoseOfTheTable) {
  EXPECT_EQ(ConventionNamed("llama.cpp"), Convention::kLlamaCpp);
  EXPECT_EQ(ConventionNames(), "tare, llama.cpp, lm-eval or gptq");
  EXPECT_THAT(Call([] { ConventionNamed("hf"); }),
              ThrowsMessage<Error>(HasSubstr("--convention: got 'hf', expected tare, llama.cpp, lm-eval or gptq")));
}

TEST(Convention, EachIsInTheTable) {
  for (const Convention convention : {Convention::kTare, Convention::kLlamaCpp, Convention::kLmEval, Convention::kGptq})
    EXPECT_EQ(ConventionNamed(InfoOf(convention).name), convention);
}

}  // namespace
}  // namespace tare::convention_windows_test
