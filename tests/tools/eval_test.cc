// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include <nlohmann/json.hpp>

#include "experiments/text/tokenizer/tokenizer.h"
#include "kernels/elementwise/rows.h"
#include "tests/support/call_tare.h"
#include "tests/support/golden.h"
#include "tests/support/ids.h"

namespace tare::eval_test {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

// Mean negative log-likelihood of tokens 1 .. 36 of both rows by the reference's logits.
double GoldenNll(const std::string& model) {
  const Safetensors expected(GoldenFolder(model) / "expected.safetensors");
  const auto ids = ValuesOf<int64_t>(expected, "input_ids");
  const auto logits = ValuesOf<float>(expected, "logits");
  const int64_t T = 37, V = std::ssize(logits) / std::ssize(ids);
  double nll = 0;
  for (int64_t t = 1; t < std::ssize(ids); ++t) {
    if (t % T == 0) continue;
    const float* row = logits.data() + (t - 1) * V;
    nll += (LogSumExp(row, V) - static_cast<double>(row[ids[t]])) / (2 * 36);
  }
  return nll;
}

TEST(EvalTest, PerplexityIsThatOfTheReference) {
  const std::string task = "perplexity=" + (GoldenFolder("diffllama-mha") / "expected.safetensors").string();
  const Outcome outcome = CallTare({"eval", GoldenFolder("diffllama-mha"), "--tasks", task, "--json", "-"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  const Json json = Json::parse(outcome.out);
  EXPECT_EQ(json.at("schema"), "tare.eval/1");
  EXPECT_EQ(json.at("model"), "diffllama-mha");
  EXPECT_EQ(json.at("plan"), "f32");
  EXPECT_EQ(json.at("math"), "f32");
  ASSERT_EQ(json.at("tasks").size(), 1u);
  const Json& figures = json["tasks"].at("perplexity:expected");
  EXPECT_EQ(figures.at("tokens"), 2 * 36);
  // Logits agree within 2e-5 of the largest, some tens; a log-likelihood is off by at most twice as much.
  EXPECT_NEAR(figures.at("nll").get<double>(), GoldenNll("diffllama-mha"), 2e-3);
  EXPECT_DOUBLE_EQ(figures.at("perplexity").get<double>(), std::exp(figures.at("nll").get<double>()));
}

// A cache of f32 changes nothing, one of few bits a little; the file says which it was.
TEST(EvalTest, TextsAreReadThroughACache) {
  const std::string task = "perplexity=" + (GoldenFolder("diffllama-mha") / "expected.safetensors").string();
  const auto nll = [&](const std::vector<std::string>& options, const char* cache) {
    std::vector<std::string> command{"eval", GoldenFolder("diffllama-mha"), "--tasks", task, "--json", "-"};
    command.insert(command.end(), options.begin(), options.end());
    const Outcome outcome = CallTare(command);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    const Json json = Json::parse(outcome.out);
    EXPECT_EQ(json.value("cache", ""), cache);
    return json.at("tasks").at("perplexity:expected").at("nll").get<double>();
  };
  const double exact = nll({}, "");
  EXPECT_NEAR(nll({"--cache", "cache_k=f32"}, "cache_k=f32,cache_v=f32"), exact, 2e-5);
  const double coarse =
      nll({"--cache", "cache_k=int4/token,cache_v=int4/token"}, "cache_k=int4/token,cache_v=int4/token");
  EXPECT_EQ(nll({"--plan", "cache_k=int4/token,cache_v=int4/token"}, "cache_k=int4/token,cache_v=int4/token"), coarse);
  EXPECT_EQ(nll({"--cache", "cache_k=int4/token,first=0", "--plan", "cache_v=int4/token"},
                "cache_k=int4/token,cache_v=int4/token"),
            coarse);
  const double first_exact = nll({"--cache", "cache_k=int4/token,cache_v=int4/token,cache_k[l0]=f32"},
                                 "cache_k=int4/token,cache_k[l0]=f32,cache_v=int4/token");
  EXPECT_NE(first_exact, coarse);
  EXPECT_GT(std::abs(coarse - exact), 1e-4);
  EXPECT_NEAR(coarse, exact, 0.5);
}

TEST(EvalTest, InvalidCachesAreRefused) {
  const std::string task = "perplexity=" + (GoldenFolder("llama-mha") / "expected.safetensors").string();
  const auto refused = [&](const char* model, const std::vector<std::string>& options, int code, const char* why) {
    std::vector<std::string> command{"eval", GoldenFolder(model), "--tasks", task};
    command.insert(command.end(), options.begin(), options.end());
    const Outcome outcome = CallTare(command);
    EXPECT_EQ(outcome.exit_code, code);
    EXPECT_THAT(outcome.err, HasSubstr(why));
  };
  refused("llama-mha", {"--cache", "cache_k=int5/token"}, 2,
          "got 'int5', expected one of f32 int8 int6 int4 int3 int2 mxfp4");
  refused("llama-mha", {"--cache", "cache_k=bf16+min"}, 2,
          "got 'min' with bf16, expected int8, int6, int4, int3 or int2");
  refused("llama-mha", {"--cache", "cache_v=int2/group16+min"}, 2,
          "plan rule 'cache_v=int2/group16+min': got a scale per group16, expected token, channel, group32 or group64");
  refused("llama-mha", {"--cache", "cache_k=int8/token", "--plan", "attn_logits=int6/row"}, 2,
          "plan over a cache: got a rule for attn_logits");
  refused("llama-mha", {"--cache", "cache_k=int8/token", "--plan", "k=int6/tensor"}, 2,
          "plan over a cache: got scales that span tokens");
  refused("clip-text", {"--cache", "cache_k=int8/token"}, 2,
          "plan rule 'cache_k=int8/token': got cache_k, expected a site of this clip");
  refused("llama-mha", {"--plan", "cache_k[l0,l2]=f32"}, 2, "got layer 2 of cache_k, expected 0 to 1");
  refused("llama-mha", {"--cache", "cache_v[l2]=f32"}, 2, "got layer 2 of cache_v, expected 0 to 1");
  refused("llama-mha", {"--cache", "keep=snapkv/64"}, 1, "got a text, expected items or a prompt");
  refused("llama-mha", {"--plan", "cache_k=int8/token,probs=u8/block64"}, 2, "got a rule for probs");
  refused(
      "llama-mha",
      {"--plan", "cache_k=int8/token,q=int8/token,k=int8/token,probs=u8/block64,v=int8/block64.channel", "--executed"},
      2, "plan over a cache: got a rule for probs");
}

// No option tells how ids are cut, so the line does. Each row is a window where the model has the positions.
TEST(EvalTest, TheLineShowsWhatWasScored) {
  const TemporaryFolder folder;
  PutManyIds(folder / "ids.safetensors", 2, 600);
  const auto out = [&](const std::vector<std::string>& options) {
    std::vector<std::string> command{"eval", GoldenFolder("llama-mha"), "--tasks",
                                     "perplexity=" + (folder / "ids.safetensors").string()};
    command.insert(command.end(), options.begin(), options.end());
    return CallTare(command).out;
  };
  EXPECT_THAT(
      out({}),
      HasSubstr(
          "\n  4 windows of 512 (all of the model's positions), stride 511, without <s>: 1198\n  tokens scored\n"));
  EXPECT_THAT(out({"--window", "256", "--stride", "100", "--limit", "2"}),
              HasSubstr("\n  2 windows of 256 spread over 1200 tokens\n"
                        "  stride 100, without <s>: 200 tokens scored\n"));
  EXPECT_THAT(out({"--window", "256", "--stride", "100", "--limit", "2", "--from", "start"}),
              HasSubstr("\n  2 windows of 256 from the start of 1200 tokens\n"
                        "  stride 100, without <s>: 355 tokens scored\n"));
}

// The rest of a text is not encoded, so its number of tokens is unknown.
TEST(EvalTest, OfATextsStartNothingElseIsRead) {
  const TemporaryFolder folder;
  const std::string pair = TARE_SOURCE_DIR "/experiments/pair";
  const auto evaluate = [&](const char* tokens, const char* out) {
    const Outcome outcome =
        CallTare({"eval", pair + "/novels-standard", "--tasks", "perplexity=" + pair + "/heldout.txt", "--window", "64",
                  "--tokens", tokens, "--from", "start", "--json", folder / out});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.out;
  };
  EXPECT_THAT(evaluate("126", "two"), HasSubstr("\n  2 windows of 64 from the start of the text\n"
                                                "  stride 63, each after <s>: 126 tokens scored\n"));
  const Json two = Json::parse(GetFile(folder / "two")).at("tasks").at("perplexity:heldout");
  EXPECT_EQ(two.at("from"), "start");
  EXPECT_FALSE(two.contains("of_tokens"));
}

// Only windows at even distances are encoded from a long text.
TEST(EvalTest, OfALongTextTheWindowsAloneAreRead) {
  const TemporaryFolder folder;
  const std::string pair = TARE_SOURCE_DIR "/experiments/pair", novel = GetFile(pair + "/heldout.txt");
  std::string text;
  while (text.size() < kLongText) text += novel;
  PutFile(folder / "long.txt", text);
  const Outcome outcome =
      CallTare({"eval", pair + "/novels-standard", "--tasks", "perplexity=" + (folder / "long.txt").string(),
                "--window", "64", "--tokens", "126", "--json", folder / "out"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("\n  2 windows of 64 spread over the text, each beginning at a line or word\n"
                                     "  stride 63, each after <s>: 126 tokens scored\n"));
  const Json json = Json::parse(GetFile(folder / "out")).at("tasks").at("perplexity:long");
  EXPECT_EQ(json.at("windows_begin"), "lines");
  EXPECT_FALSE(json.contains("of_tokens"));
}

TEST(EvalTest, FromNeedsAPartOfTheInput) {
  const TemporaryFolder folder;
  PutManyIds(folder / "ids.safetensors", 2, 600);
  const std::string ids = (folder / "ids.safetensors").string(), model = GoldenFolder("llama-mha");
  const std::vector<std::string> commands[] = {
      {"eval", model, "--tasks", "perplexity=" + ids},
      {"sweep", model, "--tasks", "perplexity=" + ids, "--out", (folder / "sweep").string()},
      {"stats", model, "--input", ids}};
  for (std::vector<std::string> command : commands) {
    command.insert(command.end(), {"--from", "start"});
    const auto refused = CallTare(command);
    EXPECT_EQ(refused.exit_code, 2) << command[0];
    EXPECT_THAT(refused.err, HasSubstr("--from: has no effect without --tokens or --limit")) << command[0];
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "sweep"));
}

// Ranges of positions hold every token once, and their losses come to the whole; the table and the CSV are of the
// JSON's.
TEST(EvalTest, LossesByPosition) {
  const TemporaryFolder folder;
  PutManyIds(folder / "ids.safetensors", 2, 100);
  const std::string task = "perplexity=" + (folder / "ids.safetensors").string();
  const Outcome outcome = CallTare({"eval", GoldenFolder("llama-mha"), "--tasks", task, "--by", "position", "--json",
                                    folder / "e.json", "--csv", folder / "e.csv"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const Json figures = Json::parse(GetFile(folder / "e.json")).at("tasks").at("perplexity:ids");
  double sum = 0;
  int64_t tokens = 0, next = 1;
  std::string csv = "task,first,last,tokens,figure,value,stderr\n";
  for (const Json& range : figures.at("by_position")) {
    EXPECT_EQ(range.at("first"), next);
    next = range.at("last").get<int64_t>() + 1;
    tokens += range.at("tokens").get<int64_t>();
    sum += range.at("nll").get<double>() * range["tokens"].get<double>();
    csv +=
        "perplexity:ids," + range["first"].dump() + "," + range["last"].dump() + "," + range["tokens"].dump() + ",nll,";
    EXPECT_THAT(GetFile(folder / "e.csv"), HasSubstr(csv.substr(csv.rfind('\n', csv.size() - 2) + 1)));
    csv += "\n";
  }
  EXPECT_EQ(tokens, figures.at("tokens"));
  EXPECT_NEAR(sum / static_cast<double>(tokens), figures.at("nll").get<double>(), 1e-9);
  EXPECT_THAT(outcome.out, HasSubstr("\n64 to 127           72 "));
  EXPECT_EQ(CallTare({"eval", GoldenFolder("llama-mha"), "--tasks", task, "--by", "depth"}).exit_code, 2);
}

// Prompt, cache and seed of the draws are the same: the record has the item's seed.
TEST(EvalCommand, AnswersAreThoseOfGenerate) {
  const TemporaryFolder folder;
  const std::string model = PairFolder("novels-standard"), cache = "cache_k=int8/token,cache_v=int4/token";
  PutFile(folder / "items.jsonl", R"({"prompt":"It was a dark night","targets":["and"],"score":"contains","half":1})"
                                  "\n"
                                  R"({"prompt":"The captain came","targets":["on"],"score":"contains","half":2})"
                                  "\n");
  const Outcome outcome = CallTare({"eval", model, "--tasks", "generate=" + (folder / "items.jsonl").string(),
                                    "--cache", cache, "--max-tokens", "9", "--temperature", "0.8", "--by", "half",
                                    "--records", folder / "r.jsonl", "--json", folder / "e.json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("2 answers, drawn with seed 1, with <s>: 18 tokens; 2 cut at 9 tokens"));
  std::istringstream records(GetFile(folder / "r.jsonl"));
  for (const char* prompt : {"It was a dark night", "The captain came"}) {
    std::string line;
    ASSERT_TRUE(std::getline(records, line));
    const Json record = Json::parse(line);
    const Outcome alone = CallTare({"generate", model, "--prompt", prompt, "--cache", cache, "--tokens", "9",
                                    "--temperature", "0.8", "--seed", record.at("seed").dump(), "--json", "-"});
    ASSERT_EQ(alone.exit_code, 0) << alone.err;
    EXPECT_EQ(Json::parse(alone.out).at("tokens"), record.at("tokens"));
    EXPECT_EQ(Json::parse(alone.out).at("text"), record.at("answer"));
  }
  const Json json = Json::parse(GetFile(folder / "e.json"));
  EXPECT_EQ(json.at("tasks").at("generate:items").at("by").size(), 2u);
  const std::string choice = "perplexity=" + (folder / "items.jsonl").string();
  EXPECT_EQ(CallTare({"eval", model, "--tasks", choice, "--temperature", "1"}).exit_code, 2) << "nothing is generated";
}

// Cells of other answers are others; a sweep's tables test the declared score alone.
TEST(EvalCommand, AnswersAreCellsOfSweeps) {
  const TemporaryFolder folder;
  PutFile(folder / "items.jsonl", "{\"prompt\":\"It was a dark\",\"targets\":[\"night\"],\"max_tokens\":4}\n");
  const auto sweep = [&](const char* seed) {
    return CallTare({"sweep", PairFolder("novels-standard"), "--site", "cache_k", "--granularity", "token", "--bits",
                     "16,4", "--tasks", "generate=" + (folder / "items.jsonl").string(), "--sampling-seed", seed,
                     "--out", folder / "s"});
  };
  const Outcome first = sweep("1");
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_THAT(first.out, HasSubstr("generate:items, acc\n"));
  EXPECT_THAT(first.out, Not(HasSubstr("generate:items, f1")));
  EXPECT_THAT(GetFile(folder / "s" / "table.csv"), HasSubstr(",f1,"));
  EXPECT_EQ(std::ranges::count(GetFile(folder / "s" / "cells.jsonl"), '\n'), 2);
  ASSERT_EQ(sweep("2").exit_code, 0);
  EXPECT_EQ(std::ranges::count(GetFile(folder / "s" / "cells.jsonl"), '\n'), 4);
}

TEST(EvalCommand, ConventionsAreNamed) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 40; ++i) text += "It is a truth universally acknowledged. ";
  PutFile(folder / "text.txt", text);
  const std::string task = "perplexity=" + (folder / "text.txt").string();
  const Outcome outcome = CallTare({"eval", PairFolder("novels-standard"), "--tasks", task, "--convention", "llama.cpp",
                                    "--window", "64", "--json", folder / "e.json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("by the convention of llama.cpp, with <s>"));
  EXPECT_EQ(Json::parse(GetFile(folder / "e.json")).at("perplexity_convention").at("convention").at("name"),
            "llama.cpp");
  EXPECT_EQ(CallTare({"eval", PairFolder("novels-standard"), "--tasks", task, "--convention", "gguf"}).exit_code, 2);
}

class ChoiceEvalTest : public testing::Test {
 protected:
  ChoiceEvalTest() {
    PutFile(folder_ / "ends.jsonl",
            R"({"ctx":"He opened the door and went","endings":["out of the room.","qqq xx zz."],"label":0})"
            "\n\n"
            R"({"ctx":"He opened the door and went","endings":["out of the room.","qqq xx zz."],"label":"1"})"
            "\n");
    PutFile(folder_ / "text.txt", "It is a truth universally acknowledged.");
  }

  TemporaryFolder folder_;
  const std::string tasks_ =
      "choice=" + (folder_ / "ends.jsonl").string() + ",perplexity=" + (folder_ / "text.txt").string();
};

TEST_F(ChoiceEvalTest, JsonAndRecordsHaveAllFields) {
  const std::string json_file = folder_ / "e.json", records = folder_ / "r.jsonl";
  const Outcome outcome =
      CallTare({"eval", PairFolder("novels-differential"), "--tasks", tasks_, "--plan",
                "attn_logits=int8/row , attn_logits[l0]=f32", "--json", json_file, "--records", records});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("choice:ends                  acc 0.50 [0.09, 0.91]"));
  EXPECT_THAT(outcome.out, HasSubstr("perplexity:text "));
  EXPECT_THAT(outcome.out, testing::EndsWith("\n+/- one standard error; [low, high] 95 %\n"));
  const Json json = Json::parse(GetFile(json_file));
  EXPECT_EQ(json.at("plan"), "attn_logits=int8/row,attn_logits[l0]=f32");
  const Json& choice = json.at("tasks").at("choice:ends");
  EXPECT_EQ(choice.at("n"), 2);
  EXPECT_EQ(choice.at("acc"), 0.5);
  EXPECT_EQ(choice.at("acc_stderr"), 0.5);  // s / sqrt(2), s^2 = 1/2
  EXPECT_EQ(choice.at("acc_norm"), 0.5);
  EXPECT_TRUE(choice.at("acc_norm_stderr").is_number());
  EXPECT_TRUE(json["tasks"].at("perplexity:text").at("perplexity").is_number());

  std::istringstream lines(GetFile(records));
  std::vector<Json> items;
  for (std::string line; std::getline(lines, line);) items.push_back(Json::parse(line));
  ASSERT_EQ(items.size(), 2u);
  EXPECT_EQ(items[0].at("task"), "choice:ends");
  EXPECT_EQ(items[1].at("line"), 3);
  EXPECT_EQ(items[1].at("label"), 1);
  EXPECT_EQ(items[1].at("answer"), 0);
  ASSERT_EQ(items[0].at("log_likelihoods").size(), 2u);
  EXPECT_GT(items[0]["log_likelihoods"][0].get<double>(), items[0]["log_likelihoods"][1].get<double>());
}

TEST_F(ChoiceEvalTest, LimitCountsItems) {
  const Outcome outcome =
      CallTare({"eval", PairFolder("novels-standard"), "--tasks", tasks_, "--limit", "1", "--json", "-"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const Json json = Json::parse(outcome.out);
  EXPECT_EQ(json.at("tasks").at("choice:ends").at("n"), 1);
  EXPECT_EQ(json.at("limit"), 1);
}

TEST_F(ChoiceEvalTest, EverythingIsCheckedBeforeTheFirstTaskRuns) {
  PutFile(folder_ / "bad.jsonl", "{\"ctx\":\"a\"\n");
  const std::string bad = tasks_ + ",choice=" + (folder_ / "bad.jsonl").string();
  for (const std::vector<std::string>& options : {std::vector<std::string>{"--tasks", bad},
                                                  {"--tasks", tasks_, "--json", folder_ / "none" / "e.json"},
                                                  {"--tasks", tasks_, "--records", folder_ / "none" / "r.jsonl"},
                                                  {"--tasks", tasks_, "--plan", "attn_logits[l4]=int8/row"}}) {
    std::vector<std::string> command{"eval", PairFolder("novels-standard")};
    command.insert(command.end(), options.begin(), options.end());
    const Outcome outcome = CallTare(command);
    EXPECT_EQ(outcome.exit_code, std::ranges::contains(options, "--plan") ? 2 : 1) << outcome.err;
    EXPECT_EQ(outcome.out, "") << options[1];
  }
}

}  // namespace
}  // namespace tare::eval_test
