// SPDX-License-Identifier: Apache-2.0
// Tasks on the command line and in results, and that the plan decides whether contexts are shared.
// In the released build alone: it computes the embedded pair's figures, ten times as long under sanitizers.
#include "experiments/tasks/task.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "experiments/tasks/choice.h"
#include "experiments/tasks/items/lines.h"
#include "experiments/tasks/perplexity.h"
#include "quant/base/message.h"
#include "quant/file/sha256.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"
#include "tests/support/golden.h"
#include "tests/support/logits.h"

namespace tare::task_test {
namespace {

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
  EXPECT_EQ(specs[0].kind, &kPerplexityTask);
  EXPECT_EQ(specs[0].Name(), "perplexity:held.out");
  EXPECT_EQ(specs[0].file, folder / "held.out.txt");
  EXPECT_EQ(specs[1].kind, &kChoiceTask);
  EXPECT_EQ(specs[1].Name(), "choice:a=b");
}

TEST(TaskTest, RecordsHaveTheirFields) {
  EXPECT_EQ(TasksThat(&TaskKind::compares), "divergence");
  EXPECT_EQ(TasksThat(&TaskKind::of_towers), "zero_shot or retrieval");
  EXPECT_EQ(TasksThat([](const TaskKind&) { return false; }), "");
  EXPECT_EQ(kPerplexityTask.compared->name, "divergence");
  EXPECT_EQ(kChoiceTask.compared, nullptr);
  for (const TaskKind* kind : AllTasks()) EXPECT_GT(kind->what.size(), 10u) << kind->name;
}

TEST(TaskTest, ResultsNameTheirKindAndItsFiguresInTables) {
  EXPECT_EQ(KindNamed("choice:needles-4"), &kChoiceTask);
  EXPECT_EQ(KindNamed("perplexity"), &kPerplexityTask);
  EXPECT_EQ(KindNamed("choices:needles-4"), nullptr);
  EXPECT_STREQ(ShownFigure("choice:needles-4", "acc_norm")->name, "acc_norm");
  EXPECT_EQ(ShownFigure("perplexity:heldout", "nll"), nullptr);  // only in table.csv
  EXPECT_EQ(ShownFigure("choice:needles-4", "nll"), nullptr);
  EXPECT_EQ(ShownFigure("unknown:heldout", "acc"), nullptr);
}

TEST(TaskTest, ItemsSayTheirKeys) {
  const TemporaryFolder folder;
  PutFile(folder / "t.jsonl", R"({"ind": 1, "ctx": "a", "endings": ["b", "c"], "label": 0, "depth": 7})"
                              "\n"
                              R"({"ind": 2, "ctx": "a", "endings": ["b", "c"], "label": 1, "depth": 9})");
  const std::vector<ItemKeys> keys = kChoiceTask.keys(folder / "t.jsonl", {});
  ASSERT_EQ(keys.size(), 2u);
  EXPECT_THAT(keys[1].where, HasSubstr("t.jsonl: line 2"));
  EXPECT_EQ(keys[1].keys.at("depth"), 9);
  EXPECT_EQ(kChoiceTask.keys(folder / "t.jsonl", {.limit = 1}).size(), 1u);
  EXPECT_EQ(kPerplexityTask.keys, nullptr);
}

TEST(TaskTest, InvalidTasksAreRefused) {
  const TemporaryFolder folder;
  PutFile(folder / "t.txt", "x");
  PutFile(folder / "t.jsonl", "x");
  const std::string text = (folder / "t.txt").string();
  const auto refuses = [](const std::string& tasks, const std::string& why) {
    EXPECT_THAT(Call([&] { ParseTasks(tasks); }), ThrowsMessage<Error>(AllOf(HasSubstr("--tasks"), HasSubstr(why))))
        << tasks;
  };
  refuses("", "got nothing");
  refuses("hellaswag=" + text, "got 'hellaswag=");
  refuses(text, "expected perplexity=TEXT or choice=ITEMS.jsonl");
  refuses("perplexity", "names no file");
  refuses("perplexity=", "names no file");
  refuses("choice=" + (folder / "none.jsonl").string(), "no such file");
  refuses("choice=" + folder.path().string(), "got a folder, expected a file");
  PutFile(folder / "config.json", "{}");
  refuses("choice=" + folder.path().string(), "got a folder, expected a file; is it MODEL, which");
  refuses("choice=" + folder.path().string() + "/a,b.txt", "/a: no such file (a device does not count); a comma in a");
  PutFile(folder / "a,b.txt", "x");
  EXPECT_EQ(ParseTasks("choice=" + text + ",perplexity=" + folder.path().string() + "/a,,b.txt")[1].file.filename(),
            "a,b.txt");
  refuses("perplexity=" + text + ",perplexity=" + (folder / "t.jsonl").string(), "two tasks are called perplexity:t");
  EXPECT_NO_THROW(ParseTasks("perplexity=" + text + ",choice=" + (folder / "t.jsonl").string()));
}

TEST(TaskTest, ANamedPipesTaskHasItsName) {
  const TemporaryFolder folder;
  const std::string pipe = folder / "held.txt";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&] { PutFile(pipe, "x"); });
  EXPECT_EQ(ParseTasks("perplexity=" + pipe)[0].Name(), "perplexity:held");
  writer.join();
}

Task ReadOne(const std::string& text, const Model& model, const WindowOptions& windows) {
  return std::move(ReadTasks(ParseTasks(text), model, {.windows = windows, .reference = {}, .other_tower = {}})[0]);
}

TEST(TaskTest, PerplexityOfIdsIsThatOfTheirSequences) {
  Model model(GoldenFolder("diffllama-gqa"));
  const auto file = GoldenFolder("diffllama-gqa") / "expected.safetensors";
  const Task task = ReadOne("perplexity=" + file.string(), model, {.window = 20});
  EXPECT_EQ(task.sha256, Sha256OfFile(file));
  EXPECT_EQ(task.spec.Name(), "perplexity:expected");
  const TokenInput input = LoadTokenInput(file, GoldenFolder("diffllama-gqa"), 131);
  const auto sequences = CutSequences(input, model.config(), {.window = 20});
  for (const char* plan : {"f32", "attn_logits=int4/row"}) {
    PlanRun run(Plan::Parse(plan), Carrying::kSimulated, ModelSitesOf(model));
    const SiteVisitors visitors = run.Begin(model);
    const Json measured = MeasurePerplexity(model, visitors, sequences, {}, {}).figures;
    const Json result = task.run(model, run, {}).figures;
    EXPECT_TRUE(result.dump().starts_with(measured.dump().substr(0, measured.dump().size() - 1))) << plan;
    EXPECT_EQ(result.dump(),
              Formatted(R"({{"nll":{},"perplexity":{},"tokens":72,"nll_stderr":{},"windows":4,"window_losses":{},)"
                        R"("window_tokens":[19,17,19,17],"by_position":{},"window":20,"stride":19,"bos":false,)"
                        R"("cut_to_positions":false}})",
                        result["nll"].dump(), result["perplexity"].dump(), result["nll_stderr"].dump(),
                        result["window_losses"].dump(), result["by_position"].dump()));
    EXPECT_EQ(HowMeasured(result, kPerplexityTask), "4 windows of 20, stride 19, without <s>: 72 tokens scored");
  }
}

std::vector<std::vector<double>> LogLikelihoodsOf(const EndingScores& scores) {
  std::vector<std::vector<double>> all;
  for (const std::vector<ScoredEnding>& endings : scores) {
    all.emplace_back();
    for (const ScoredEnding& ending : endings) all.back().push_back(ending.log_likelihood);
  }
  return all;
}

// A scale that spans rows would see other endings where contexts are shared. Executed linear layers give the same bits
// either way, executed attention would not.
TEST(TaskTest, ContextsAreSharedUnlessAScaleSpansRows) {
  Model model(PairFolder("novels-differential"));
  const Task task = ReadOne("choice=" + PairFolder("needles-1.jsonl").string(), model, {.limit = 2});
  const std::vector<ChoiceItem> items = LoadLines<ParseChoiceItem>(PairFolder("needles-1.jsonl"), 2, TakeFrom::kSpread);
  const Tokenizer tokenizer = Tokenizer::Load(PairFolder("novels-differential"));
  const auto expect = [&](const char* plan, Carrying carrying) {
    PlanRun run(Plan::Parse(plan), carrying, ModelSitesOf(model));
    const SiteVisitors visitors = run.Begin(model);
    const auto measure = [&](ContextSharing sharing) {
      return LogLikelihoodsOf(ScoreEndings(model, visitors, sharing, items, tokenizer, tokenizer.bos(), {}, {}));
    };
    const bool may_share = carrying == Carrying::kSimulated || !run.SpansRows();  // executed attention has no branches
    const auto shared = may_share ? measure(ContextSharing::kAllowed) : std::vector<std::vector<double>>(),
               whole = measure(ContextSharing::kForbidden);
    if (run.SpansRows()) {
      ASSERT_NE(shared, whole) << plan;
    }
    if (carrying == Carrying::kExecuted && !run.SpansRows()) {
      EXPECT_EQ(shared, whole) << plan;
    }
    std::vector<std::vector<double>> ran;
    for (const Json& record : task.run(model, run, {}).records) ran.push_back(record["log_likelihoods"]);
    EXPECT_EQ(ran, run.SpansRows() ? whole : shared) << plan;
  };
  for (const char* plan : {"f32", "attn_logits=int4/row", "attn_logits=int4/head", "attn_logits=int4/tensor"})
    expect(plan, Carrying::kSimulated);
  for (const char* plan : {"weights=int8/channel,linear_in=int8/token", "int8"}) expect(plan, Carrying::kExecuted);
}

TEST(TaskTest, LimitCountsItems) {
  Model model(PairFolder("novels-standard"));
  const Task task = ReadOne("choice=" + PairFolder("continuations.jsonl").string(), model, {.limit = 4});
  EXPECT_EQ(task.spec.Name(), "choice:continuations");
  PlanRun run(Plan::Parse(""), Carrying::kSimulated, ModelSitesOf(model));
  const TaskResult result = task.run(model, run, {});
  EXPECT_EQ(result.figures["n"], 4);
  EXPECT_EQ(result.figures["outcomes"].get<std::string>().size(), 4u);
  EXPECT_EQ(result.records.size(), 4u);
}

TEST(TaskTest, ChoiceShowsFiguresOutcomesAndRecordsInTheOrderOfTheItems) {
  const TaskResult result = Accuracies(
      {{.label = 1, .line = 9}, {.label = 2}, {.label = 0}, {.label = 1}},
      {{{-3.5, 7}, {-2.25, 4}}, {{-1, 1}, {-2, 1}, {-3, 9}}, {{-2, 9}, {-3, 1}, {-3, 1}, {-1, 1}}, {{-1, 1}, {-2, 9}}});
  // s^2 = 4 p (1 - p) / 3 of p = 1/4 and of p = 3/4: 1/4, and its root over 4 is 1/4.
  EXPECT_EQ(result.figures.dump(), R"({"n":4,"acc":0.25,"acc_stderr":0.25,"acc_norm":0.75,"acc_norm_stderr":0.25,)"
                                   R"("outcomes":"1000","outcomes_norm":"0111"})");
  ASSERT_EQ(result.records.size(), 4u);
  EXPECT_EQ(result.records[0].dump(),
            R"({"line":9,"label":1,"answer":1,"answer_norm":0,"log_likelihoods":[-3.5,-2.25],"characters":[7,4]})");
  EXPECT_EQ(result.records[3]["answer_norm"], 1);
}

TEST(TaskTest, ConventionStandsInEveryResult) {
  const Json json = kPerplexityTask.convention({.window = 256, .stride = 32, .tokens = 1000});
  EXPECT_EQ(json["window"], 256);
  EXPECT_EQ(json["stride"], 32);
  EXPECT_EQ(json["tokens"], 1000);
  EXPECT_THAT(json["convention"].get<std::string>(), HasSubstr("each token is scored once"));
}

constexpr FigureKeys kKeys[] = {{.name = "loss"}, {.name = "hits", .error = "hits_error", .outcomes = "hit"}};
constexpr TaskKind kKind{.name = "k", .file = "K", .read = nullptr, .figures = kKeys, .count = "n", .unit = "item"};

TEST(TaskTest, PartsStandUnderTheirKeys) {
  const Json result{{"n", 7}, {"hits", 0.5}, {"hits_error", 0.25}, {"hit", "10"}, {"loss", 3}, {"other", "x"}};
  const Figures figures = ReadFigures(result, kKind).value();
  EXPECT_EQ(figures.count, 7);
  ASSERT_EQ(figures.list.size(), 2u);
  EXPECT_STREQ(figures.list[0].keys.name, "loss");
  EXPECT_EQ(figures.list[0].value, 3.0);
  EXPECT_FALSE(figures.list[0].error.has_value());
  EXPECT_EQ(figures.list[0].outcomes, "");
  EXPECT_STREQ(figures.list[1].keys.name, "hits");
  EXPECT_EQ(figures.list[1].value, 0.5);
  EXPECT_EQ(figures.list[1].error, 0.25);
  EXPECT_EQ(figures.list[1].outcomes, "10");
}

constexpr FigureKeys kWindowed[] = {{.name = "loss", .windows = WindowKeys{"sums", "counts"}}};
constexpr TaskKind kWindows{
    .name = "w", .file = "W", .read = nullptr, .figures = kWindowed, .count = "n", .unit = "item"};

// Older results have no windows; half of them, or other values, no writer of ours makes.
TEST(TaskTest, WindowsAreReadWhereTheyAre) {
  const Json old{{"n", 3}, {"loss", 2.0}};
  Json whole = old;
  whole.update({{"sums", {1.5, 4.5}}, {"counts", {1, 2}}});
  EXPECT_TRUE(ReadFigures(old, kWindows)->list[0].windows.sums.empty());
  EXPECT_THAT(ReadFigures(whole, kWindows)->list[0].windows.sums, testing::ElementsAre(1.5, 4.5));
  EXPECT_THAT(ReadFigures(whole, kWindows)->list[0].windows.counts, testing::ElementsAre(1, 2));
  for (const Json& bad : {Json(), Json(5), Json{1.5}, Json{"a", "b"}}) {
    Json other = whole;
    other["sums"] = bad;
    EXPECT_FALSE(ReadFigures(other, kWindows)) << bad;
  }
  whole.erase("counts");
  EXPECT_FALSE(ReadFigures(whole, kWindows));
}

TEST(TaskTest, FewItemsAreShownWithAnInterval) {
  const auto text = [](const std::string& outcomes) {
    const Json result{{"n", 7}, {"hits", 0.5}, {"hits_error", 0.25}, {"hit", outcomes}, {"loss", 3.0}};
    return FigureText(ReadFigures(result, kKind)->list[1], ".2f");
  };
  EXPECT_EQ(text("1111100000"), "0.50 +/- 0.25");
  EXPECT_EQ(text("111110000"), "0.50 [0.27, 0.81]");  // five of nine
  EXPECT_EQ(text("111"), "0.50 [0.44, 1.00]");
}

TEST(TaskTest, AResultThatLacksAPartHasNone) {
  const Json whole{{"n", 7}, {"hits", 0.5}, {"hits_error", 0.25}, {"hit", "10"}, {"loss", 3.0}};
  for (const auto& [key, value] : whole.items()) {
    Json without = whole, other = whole;
    without.erase(key);
    other[key] = value.is_string() ? Json(1) : Json("1");
    EXPECT_FALSE(ReadFigures(without, kKind)) << key;
    EXPECT_FALSE(ReadFigures(other, kKind)) << key;
  }
  EXPECT_FALSE(ReadFigures(Json(5), kKind));
  EXPECT_FALSE(ReadFigures(Json::array({1}), kKind));
}

// By what the file is and how long, and what is asked of it.
TEST(TaskTest, WindowsOfLongTextsAreReadAlone) {
  const TemporaryFolder folder;
  const ModelConfig config{.max_positions = 512};
  const auto reads = [&](const char* kind, const char* file, const WindowOptions& windows, size_t bytes = kLongText) {
    PutFile(folder / file, "");
    std::filesystem::resize_file(folder / file, bytes);
    const std::vector<TaskSpec> tasks = ParseTasks(std::string(kind) + "=" + (folder / file).string());
    return IsReadInWindows(tasks.at(0), config, windows);
  };
  EXPECT_TRUE(reads("perplexity", "long.txt", {.limit = 9}));
  EXPECT_TRUE(reads("divergence", "long.txt", {.tokens = 512}));
  EXPECT_FALSE(reads("perplexity", "long.txt", {}));
  EXPECT_FALSE(reads("perplexity", "long.txt", {.limit = 9, .from = TakeFrom::kStart}));
  EXPECT_FALSE(reads("perplexity", "short.txt", {.limit = 9}, kLongText - 1));
  EXPECT_FALSE(reads("perplexity", "ids.safetensors", {.limit = 9}));
  EXPECT_FALSE(reads("documents", "long.jsonl", {.limit = 9}));
  EXPECT_FALSE(reads("choice", "items.jsonl", {.limit = 9}));
}

}  // namespace
}  // namespace tare::task_test
