// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/evaluation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/table/table.h"
#include "quant/base/message.h"
#include "quant/file/sha256.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"
#include "tests/support/golden.h"
#include "tests/support/ids.h"

namespace tare::evaluation_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

std::vector<std::string> Keys(const Json& json) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  return keys;
}

TEST(EvaluationTest, RecordsTheRun) {
  const Math math = HasProducts(Math::kBf16) ? Math::kBf16 : Math::kF32;
  Model model(GoldenFolder("diffllama-mha"), math);
  PlanRun run(Plan::Parse("attn_logits=int8/tensor"), Carrying::kSimulated, ModelSitesOf(model));
  const Json json = Evaluation(model, run, {.window = 20, .limit = 3}).json();
  EXPECT_THAT(Keys(json), ElementsAre("schema", "model", "weights_sha256", "plan", "plan_hash", "executed", "lookahead",
                                      "math", "limit", "from", "perplexity_convention", "divergence_convention",
                                      "longppl_convention", "documents_convention", "tasks"));
  EXPECT_EQ(json["schema"], "tare.eval/1");
  EXPECT_EQ(json["plan"], "attn_logits=int8/tensor");
  EXPECT_EQ(json["executed"], false);
  EXPECT_EQ(json["lookahead"], true);
  EXPECT_EQ(json["math"], math == Math::kBf16 ? "bf16" : "f32");
  EXPECT_EQ(json["limit"], 3);
  EXPECT_EQ(json["perplexity_convention"]["window"], 20);
  EXPECT_EQ(json["tasks"], Json::object());
}

TEST(EvaluationTest, TasksAddFiguresALineAndRecords) {
  const TemporaryFolder folder;
  PutFile(folder / "ends.jsonl",
          R"({"ctx":"He opened the door and went","endings":["out of the room.","qqq xx zz."],"label":0})"
          "\n"
          R"({"ctx":"He opened the door and went","endings":["out of the room.","qqq xx zz."],"label":1})"
          "\n");
  PutFile(folder / "text.txt", "It is a truth universally acknowledged.");
  Model model(PairFolder("novels-differential"));
  PlanRun run(Plan::Parse(""), Carrying::kSimulated, ModelSitesOf(model));
  Evaluation evaluation(model, run, {});
  const std::vector<Task> tasks = ReadTasks(
      ParseTasks("choice=" + (folder / "ends.jsonl").string() + ",perplexity=" + (folder / "text.txt").string()), model,
      {});
  EXPECT_EQ(evaluation.Run(tasks[0], {}),
            "choice:ends                  acc 0.50 [0.09, 0.91]\n                             acc_norm 0.50 [0.09, "
            "0.91]   2 items\n"
            "  2 items, each ending scored after its context, with <s>");
  const std::string line = evaluation.Run(tasks[1], {});
  const Json& json = evaluation.json()["tasks"];
  EXPECT_THAT(Keys(json), ElementsAre("choice:ends", "perplexity:text"));
  EXPECT_THAT(Keys(json["perplexity:text"]),
              ElementsAre("nll", "perplexity", "tokens", "nll_stderr", "windows", "window_losses", "window_tokens",
                          "by_position", "window", "stride", "bos", "cut_to_positions", "input_sha256"));
  const Json& p = json["perplexity:text"];
  EXPECT_EQ(p["input_sha256"], Sha256OfFile(folder / "text.txt"));
  EXPECT_TRUE(p["nll_stderr"].is_null());
  EXPECT_EQ(
      line,
      Formatted("perplexity:text              perplexity {:9.4f}\n                             nll {:.5f}   {} tokens\n"
                "  1 window of 512, stride 511, each after <s>: {} tokens scored\n"
                "  1 window is too few for an error: expected 20; try more tokens or a shorter --window",
                p["perplexity"].get<double>(), p["nll"].get<double>(), p["tokens"].get<int>(), p["tokens"].get<int>()));
  EXPECT_TRUE(evaluation.records().starts_with(R"({"task":"choice:ends","line":1,"label":0,"answer":0,)"));
  EXPECT_EQ(std::ranges::count(evaluation.records(), '\n'), 2);
}

// A row of `tokens` ids in one window; query t of them sees t keys. What its caches held by hand: pairs with codes.
// e to the ends of the mean loss's interval, beside the value, and in JSON.
TEST(EvaluationTest, APerplexityHasItsOwnInterval) {
  Model model(PairFolder("novels-standard"));
  PlanRun run(Plan::Parse(""), Carrying::kSimulated, ModelSitesOf(model));
  const TaskOptions options{.windows = {.window = 16, .limit = 24}};
  Evaluation evaluation(model, run, options.windows);
  const std::string text = TARE_SOURCE_DIR "/experiments/pair/heldout.txt";
  const std::string line = evaluation.Run(ReadTasks(ParseTasks("perplexity=" + text), model, options).at(0), {});
  const Json& p = evaluation.json()["tasks"]["perplexity:heldout"];
  std::vector<double> means = p["window_losses"];
  for (double& mean : means) mean /= 15;  // tokens of each window
  const Interval ends = ErrorOfMean(means, Units::kOfText)->Around(p["nll"]);
  EXPECT_NEAR(p["perplexity_low"].get<double>(), std::exp(ends.low), 1e-9 * std::exp(ends.low));
  EXPECT_NEAR(p["perplexity_high"].get<double>(), std::exp(ends.high), 1e-9 * std::exp(ends.high));
  const Interval shown{std::exp(ends.low), std::exp(ends.high)};
  EXPECT_THAT(line, HasSubstr(Formatted("perplexity {:9.4f} [{}, {}]\n                             nll ",
                                        p["perplexity"].get<double>(), BesideInterval(shown.low, shown, ".4f"),
                                        BesideInterval(shown.high, shown, ".4f"))));
  EXPECT_FALSE(p.contains("nll_low"));
}

TEST(EvaluationTest, BitsAreThoseThatCachesHeld) {
  const TemporaryFolder folder;
  Model model(PairFolder("novels-differential"));
  const auto evaluated = [&](const std::string& plan, int64_t tokens, const std::string& cache) {
    PutManyIds(folder / "ids.safetensors", 1, tokens);
    PlanRun run(Plan::Parse(plan), Carrying::kSimulated, ModelSitesOf(model), {},
                cache.empty() ? std::nullopt : std::optional(ParseCachePlan(cache)));
    Evaluation evaluation(model, run, {});
    const std::string task = "divergence=" + (folder / "ids.safetensors").string();
    const std::string line = evaluation.Run(ReadTasks(ParseTasks(task), model, {})[0], {});
    EXPECT_FALSE(evaluation.json().contains("key_bits"));
    return std::pair(evaluation.json()["tasks"]["divergence:ids"], line);
  };
  const auto expect = [&](const auto& result, double pairs, double of, double keys, double values) {
    const auto& [json, line] = result;
    EXPECT_DOUBLE_EQ(json["rounded"].template get<double>(), pairs / of);
    EXPECT_DOUBLE_EQ(json["key_bits"].template get<double>(), 16 + pairs / of * (keys - 16));
    EXPECT_DOUBLE_EQ(json["value_bits"].template get<double>(), 16 + pairs / of * (values - 16));
    EXPECT_EQ(line.contains("of its keys and values rounded"), pairs < of) << line;
  };
  // Heads of 32: a page of 64 tokens is rounded when the 65th comes. Queries 65 to 100 see 64 rounded keys each.
  expect(evaluated("cache_k=int4/channel,cache_v=int2/channel", 100, ""), 36 * 64, 5050, 4.5, 2.5);
  EXPECT_THAT(evaluated("cache_k=int4/channel", 100, "").second, HasSubstr("cache: 45.6 % of its keys and values"));
  expect(evaluated("cache_k=int4/token", 100, ""), 5050, 5050, 5, 16);
  expect(evaluated("cache_k=int4/token", 100, "first=4"), 96 * 97 / 2, 5050, 5, 16);         // all but four of t keys
  expect(evaluated("cache_k=int4/token", 100, "first=4,last=8"), 88 * 89 / 2, 5050, 5, 16);  // but twelve
  // Nothing was rounded: KL 0 would say that the plan costs nothing.
  for (const auto& [plan, tokens, cache] :
       {std::tuple{"cache_k=int2/channel", 64, ""}, {"cache_k=int4/token", 12, "first=4,last=8"}})
    EXPECT_THAT(Call([&] { evaluated(plan, tokens, cache); }), ThrowsMessage<Error>(HasSubstr("no key was rounded")));
}

TEST(EvaluationTest, TextsByPosition) {
  Model model(GoldenFolder("diffllama-mha"));
  PlanRun run(Plan::Parse("attn_logits=int4/row"), Carrying::kSimulated, ModelSitesOf(model));
  Evaluation evaluation(model, run, {});
  evaluation.BreakDownBy({.by = {"position"}, .over = ""});
  const std::string ids = (GoldenFolder("diffllama-mha") / "expected.safetensors").string();
  std::string lines;
  for (const Task& task : ReadTasks(ParseTasks("perplexity=" + ids + ",divergence=" + ids), model, {}))
    lines += evaluation.Run(task, {});
  EXPECT_THAT(lines, HasSubstr("predicted from  tokens"));
  EXPECT_THAT(lines, HasSubstr("32 to 63"));
  const Json& json = evaluation.json()["tasks"];
  const Json &last = json["perplexity:expected"]["by_position"].back(),
             &moved = json["divergence:expected"]["by_context"];
  EXPECT_THAT(evaluation.csv(),
              StartsWith("task,first,last,tokens,figure,value,stderr\nperplexity:expected,1,1,2,nll,"));
  EXPECT_THAT(evaluation.csv(), HasSubstr("\nperplexity:expected,32,63,10,nll," + last["nll"].dump() + ",\n"));
  EXPECT_EQ(moved[0]["kld"], 0.0);
  EXPECT_THAT(evaluation.csv(), HasSubstr("\ndivergence:expected,1,1,2,kld,0,\n"));
}

TEST(Positions, ATableAndLinesOfEveryFigure) {
  const Json ranges{{{"first", 1}, {"last", 1}, {"tokens", 2}, {"nll", 6.25}, {"nll_stderr", Json()}, {"ratio", 1.5}},
                    {{"first", 2}, {"last", 3}, {"tokens", 40}, {"nll", 5.0}, {"nll_stderr", 0.125}, {"ratio", 1.25}}};
  EXPECT_EQ(PositionTable(ranges),
            "predicted from  tokens            nll  ratio\n"
            "1                    2           6.25    1.5\n"
            "2 to 3              40  5.00 +/- 0.12   1.25\n");
  EXPECT_EQ(TableCsv(TableOf(PositionRows("perplexity:a,b", ranges))),
            "task,first,last,tokens,figure,value,stderr\n"
            "\"perplexity:a,b\",1,1,2,nll,6.25,\n"
            "\"perplexity:a,b\",1,1,2,ratio,1.5,\n"
            "\"perplexity:a,b\",2,3,40,nll,5,0.125\n"
            "\"perplexity:a,b\",2,3,40,ratio,1.25,\n");
}

}  // namespace

}  // namespace tare::evaluation_test
