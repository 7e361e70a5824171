// SPDX-License-Identifier: Apache-2.0
// Tasks as the command line names them and as results show them, and that a plan decides whether contexts are shared.
#include "experiments/tasks/task.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "quant/base/error.h"
#include "quant/file/sha256.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/golden.h"
#include "tests/support/logits.h"

namespace tare {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(TaskTest, NamesAreKindAndFile) {
  const TemporaryFolder folder;
  PutFile(folder / "held.out.txt", "x");
  PutFile(folder / "a=b.jsonl", "x");
  const std::vector<TaskSpec> specs =
      ParseTasks("perplexity=" + (folder / "held.out.txt").string() + ",choice=" + (folder / "a=b.jsonl").string());
  ASSERT_EQ(specs.size(), 2u);
  EXPECT_EQ(specs[0].kind, TaskSpec::Kind::kPerplexity);
  EXPECT_EQ(specs[0].Name(), "perplexity:held.out");
  EXPECT_EQ(specs[0].file, folder / "held.out.txt");
  EXPECT_EQ(specs[1].kind, TaskSpec::Kind::kChoice);
  EXPECT_EQ(specs[1].Name(), "choice:a=b");
}

TEST(TaskTest, WhatIsNoTaskIsRefused) {
  const TemporaryFolder folder;
  PutFile(folder / "t.txt", "x");
  PutFile(folder / "t.jsonl", "x");
  const std::string text = (folder / "t.txt").string();
  const auto refuses = [](const std::string& tasks, const std::string& why) {
    EXPECT_THAT([&] { ParseTasks(tasks); }, ThrowsMessage<Error>(AllOf(HasSubstr("--tasks"), HasSubstr(why)))) << tasks;
  };
  refuses("", "got nothing");
  refuses("hellaswag=" + text, "got 'hellaswag=");
  refuses(text, "expected perplexity=TEXT or choice=ITEMS.jsonl");
  refuses("perplexity", "names no file");
  refuses("perplexity=", "names no file");
  refuses("choice=" + (folder / "none.jsonl").string(), "no such file");
  refuses("choice=" + folder.path().string(), "no such file");
  refuses("perplexity=" + text + ",perplexity=" + (folder / "t.jsonl").string(), "two tasks are called perplexity:t");
  EXPECT_NO_THROW(ParseTasks("perplexity=" + text + ",choice=" + (folder / "t.jsonl").string()));
}

Task PairTask(const char* kind_and_file, const Model& model, const WindowOptions& windows) {
  const std::string text = kind_and_file;
  const size_t equals = text.find('=');
  return {ParseTasks(text.substr(0, equals + 1) + PairFolder(text.substr(equals + 1)).string())[0], model, windows};
}

TEST(TaskTest, PerplexityOfIdsIsThatOfTheirSequences) {
  Model model(GoldenFolder("diffllama-gqa"));
  const auto file = GoldenFolder("diffllama-gqa") / "expected.safetensors";
  const Task task(ParseTasks("perplexity=" + file.string())[0], model, {.window = 20});
  EXPECT_EQ(task.sha256(), Sha256OfFile(file));
  EXPECT_EQ(task.spec().Name(), "perplexity:expected");
  const TokenInput input = LoadTokenInput(file, GoldenFolder("diffllama-gqa"), 131);
  const auto sequences = CutSequences(input, model.config(), {.window = 20});
  for (const char* plan : {"f32", "attn_logits=int4/row"}) {
    PlanRun run(Plan::Parse(plan), Carrying::kSimulated, model.config());
    const SiteVisitors visitors = run.Begin(model);
    const auto result = std::get<PerplexityResult>(task.Run(model, run, {}));
    EXPECT_EQ(result.nll, MeasurePerplexity(model, visitors, sequences, {}).nll) << plan;
    const Json json = ToJson(TaskResult(result));
    EXPECT_EQ(json, (Json{{"nll", result.nll},
                          {"perplexity", result.perplexity},
                          {"tokens", 72},
                          {"nll_stderr", result.nll_stderr},
                          {"windows", 4}}));
  }
}

std::vector<std::vector<double>> LogLikelihoods(const ChoiceResult& result) {
  std::vector<std::vector<double>> all;
  for (const ChoiceRecord& r : result.records) all.push_back(r.log_likelihoods);
  return all;
}

// A scale that spans rows would see other endings where contexts are shared.
TEST(TaskTest, ContextsAreSharedUnlessAScaleSpansRows) {
  Model model(PairFolder("novels-differential"));
  const Task task = PairTask("choice=needles-1.jsonl", model, {.limit = 2});
  const std::vector<ChoiceItem> items = LoadChoiceItems(PairFolder("needles-1.jsonl"), 2);
  const Tokenizer tokenizer = Tokenizer::Load(PairFolder("novels-differential"));
  for (const char* plan : {"f32", "attn_logits=int4/row", "attn_logits=int4/head", "attn_logits=int4/tensor"}) {
    PlanRun run(Plan::Parse(plan), Carrying::kSimulated, model.config());
    const SiteVisitors visitors = run.Begin(model);
    const auto measure = [&](ContextSharing sharing) {
      return LogLikelihoods(MeasureChoice(model, visitors, sharing, items, tokenizer, tokenizer.bos(), {}));
    };
    const auto shared = measure(ContextSharing::kAllowed), whole = measure(ContextSharing::kForbidden);
    if (run.SpansRows()) {
      ASSERT_NE(shared, whole) << plan;
    }
    const auto result = std::get<ChoiceResult>(task.Run(model, run, {}));
    EXPECT_EQ(LogLikelihoods(result), run.SpansRows() ? whole : shared) << plan;
  }
}

TEST(TaskTest, ChoiceCountsItemsAndShowsTheirOutcomes) {
  Model model(PairFolder("novels-standard"));
  const Task task = PairTask("choice=continuations.jsonl", model, {.limit = 4});
  EXPECT_EQ(task.spec().Name(), "choice:continuations");
  PlanRun run(Plan::Parse(""), Carrying::kSimulated, model.config());
  const auto result = std::get<ChoiceResult>(task.Run(model, run, {}));
  ASSERT_EQ(result.records.size(), 4u);
  const Json json = ToJson(TaskResult(result));
  EXPECT_EQ(json["n"], 4);
  EXPECT_EQ(json["acc"], result.acc);
  EXPECT_EQ(json["acc_stderr"], result.acc_stderr);
  EXPECT_EQ(json["acc_norm"], result.acc_norm);
  EXPECT_EQ(json["acc_norm_stderr"], result.acc_norm_stderr);
  EXPECT_FALSE(json.contains("records"));
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(json["outcomes"].get<std::string>().at(i), result.records[i].Correct() ? '1' : '0');
    EXPECT_EQ(json["outcomes_norm"].get<std::string>().at(i), result.records[i].CorrectNorm() ? '1' : '0');
  }
}

TEST(TaskTest, OutcomesAreInTheOrderOfTheItems) {
  ChoiceResult result{.n = 3, .acc = 1.0 / 3};
  result.records = {{.label = 1, .answer = 1, .answer_norm = 0},
                    {.label = 2, .answer = 0, .answer_norm = 2},
                    {.label = 0, .answer = 3, .answer_norm = 0}};
  const Json json = ToJson(TaskResult(result));
  EXPECT_EQ(json["outcomes"], "100");
  EXPECT_EQ(json["outcomes_norm"], "011");
}

TEST(TaskTest, RecordsHaveALineEach) {
  const ChoiceRecord record{
      .line = 9, .label = 1, .log_likelihoods = {-3.5, -2.25}, .characters = {7, 4}, .answer = 1, .answer_norm = 0};
  EXPECT_EQ(
      ToJson("choice:x", record).dump(),
      R"({"task":"choice:x","line":9,"label":1,"answer":1,"answer_norm":0,"log_likelihoods":[-3.5,-2.25],"characters":[7,4]})");
}

TEST(TaskTest, ConventionStandsInEveryResult) {
  const Json json = Convention({.window = 256, .stride = 32, .tokens = 1000});
  EXPECT_EQ(json["window"], 256);
  EXPECT_EQ(json["stride"], 32);
  EXPECT_EQ(json["tokens"], 1000);
  EXPECT_THAT(json["convention"].get<std::string>(), HasSubstr("each token is scored once"));
}

}  // namespace
}  // namespace tare
