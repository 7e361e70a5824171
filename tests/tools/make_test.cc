// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "quant/file/json.h"
#include "tests/support/call_tare.h"
#include "tests/support/golden.h"
#include "tests/support/run_command.h"

namespace tare::make_test {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

class MakeCommand : public testing::Test {
 protected:
  MakeCommand() { PutFile(folder_ / "t.txt", GetFile(PairFolder("heldout.txt")).substr(0, 30000)); }

  Outcome Make(std::vector<std::string> words) {
    words.insert(words.begin(), "make");
    words.insert(words.end(), {"--text", folder_ / "t.txt", "--out", folder_ / "items.jsonl"});
    return CallTare(words);
  }
  Outcome Eval(const std::vector<std::string>& more) {
    std::vector<std::string> words{"eval", model_, "--tasks", "choice=" + (folder_ / "items.jsonl").string()};
    words.insert(words.end(), more.begin(), more.end());
    return CallTare(words);
  }

  const TemporaryFolder folder_;
  const std::string model_ = PairFolder("novels-differential");
};

// Makes needles, runs them, and groups what the differential model finds, with the same groups in JSON and CSV.
TEST_F(MakeCommand, NeedlesByDepthAndLength) {
  const Outcome made = Make({"needles", model_, "--lengths", "120,160", "--depths", "0,1", "--samples", "2"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("items.jsonl: 8 items\nWhat guesses score, 8 items of 2 samples; chance is 0.250\n"));
  EXPECT_THAT(made.out, HasSubstr("no guess differs from chance"));
  const std::string csv = folder_ / "g.csv", records = folder_ / "r.jsonl";
  const Outcome outcome =
      Eval({"--by", "depth,length", "--csv", csv, "--records", records, "--json", folder_ / "e.json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("acc with 95 % intervals, 2 items each\ndepth"));
  const Json groups = Json::parse(GetFile(folder_ / "e.json"))["tasks"]["choice:items"]["by"];
  ASSERT_EQ(groups.size(), 4u);
  double right = 0;
  for (const Json& group : groups) right += group["acc"].get<double>() * 2;
  EXPECT_GE(right, 6) << "of 8";
  const std::string lines = GetFile(csv);
  EXPECT_EQ(std::ranges::count(lines, '\n'), 5);
  EXPECT_TRUE(lines.starts_with("task,depth,length,n,acc,acc_low,acc_high,acc_norm")) << lines;
  const std::string record = GetFile(records);
  EXPECT_EQ(Json::parse(record.substr(0, record.find('\n')))["item"]["length"], 120);
}

TEST_F(MakeCommand, ShotsBySpreadOfTheirOrder) {
  const Outcome made = Make({"shots", "--shots", "4", "--samples", "2", "--seeds", "2"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  const Outcome outcome = Eval({"--by", "order,shots", "--over", "seed"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("acc over the seeds, and p of no difference (Cochran's Q)\norder"));
}

TEST_F(MakeCommand, CopiesAreItems) {
  ASSERT_EQ(Make({"copies", model_, "--lengths", "400", "--samples", "1", "--depths", "0.5"}).exit_code, 0);
  EXPECT_EQ(Eval({}).exit_code, 0);
}

// Every maker writes both forms and says what guesses score; its choices are items of the choice task.
TEST_F(MakeCommand, EveryMakerMakesItsItems) {
  const std::string out = folder_ / "items.jsonl", json = folder_ / "p.json", text = folder_ / "t.txt";
  for (std::vector<std::string> words : std::vector<std::vector<std::string>>{
           {"needles", model_, "--text", text, "--lengths", "200", "--needles", "4", "--values", "2", "--wrong",
            "others"},
           {"variables", model_, "--text", text, "--lengths", "300", "--chains", "2", "--hops", "1"},
           {"shots", "--text", text, "--shots", "4", "--seeds", "1"},
           {"copies", model_, "--text", text, "--lengths", "400"}}) {
    words.insert(words.begin(), "make");
    words.insert(words.end(), {"--samples", "2", "--out", out, "--json", json});
    Outcome made = CallTare(words);
    ASSERT_EQ(made.exit_code, 0) << words[1] << made.err;
    EXPECT_EQ(Json::parse(GetFile(json))["schema"], "tare.probes/1") << words[1];
    EXPECT_NEAR(Json::parse(GetFile(json))["chance"].get<double>(), words[1] == "variables" ? 0.5 : 0.3, 0.051);
    EXPECT_EQ(CallTare({"probe", out}).out, made.out.substr(made.out.find('\n') + 1)) << words[1];
    words.insert(words.end(), {"--answers", "targets"});
    made = CallTare(words);
    ASSERT_EQ(made.exit_code, 0) << words[1] << made.err;
    const std::string line = GetFile(out).substr(0, GetFile(out).find('\n'));
    EXPECT_TRUE(Json::parse(line).at("targets").at(0).is_string()) << line;
    EXPECT_EQ(Json::parse(GetFile(json))["chance"], Json()) << words[1];
  }
}

TEST_F(MakeCommand, ItemsThatAreTooLongAreRefusedFirst) {
  const Outcome made = Make({"needles", model_, "--lengths", "512,4096"});
  EXPECT_EQ(made.exit_code, 2);
  EXPECT_THAT(made.err, HasSubstr("--lengths: got 4096, expected at most max_position_embeddings 2048 of "));
  // Items of another tokenizer, or by hand: the second is too long, and the first is not run.
  std::string words;
  for (int i = 0; i < 3000; ++i) words += "a ";
  PutFile(folder_ / "items.jsonl", R"({"ctx": "a", "endings": ["b", "c"], "label": 0})"
                                   "\n" +
                                       Json{{"ctx", words}, {"endings", {"b", "c"}}, {"label", 0}}.dump());
  const Outcome outcome = Eval({});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("line 2: got 3002 tokens with an ending, expected at most max_position_embeddings "
                                     "2048"));
}

TEST_F(MakeCommand, WhatIsTooMuchIsRefusedBeforeAnythingRuns) {
  const auto refused = [&](const std::vector<std::string>& words, const char* why) {
    const Outcome outcome = Make(words);
    EXPECT_EQ(outcome.exit_code, RefusalCode(outcome.err));
    EXPECT_THAT(outcome.err, HasSubstr(why));
  };
  refused({"needles", model_, "--samples", "1000000", "--depths", "0,0.5,1", "--questions", "4"},
          "--samples: got 12000000 items of 6.14e+09 positions in all, expected at most 1e+09; try fewer");
  refused({"copies", model_, "--samples", "1000000", "--lengths", "256,512", "--depths", "0,1"},
          "--samples: got 4000000 items of 1.54e+09 positions in all");
  refused({"shots", "--samples", "1000000", "--shots", "4,8", "--seeds", "1000"}, "--samples: got 4000000000 items");
}

TEST_F(MakeCommand, WrongUsage) {
  EXPECT_EQ(Make({"needles", model_, "--depths", "2"}).exit_code, 2);
  EXPECT_EQ(Make({"needles", model_, "--wrong", "none"}).exit_code, 2);
  EXPECT_EQ(Make({"needles", model_, "--answers", "none"}).exit_code, 2);
  EXPECT_EQ(Make({"shots", "--data", "d.jsonl"}).exit_code, 2) << "either a text or data";
  EXPECT_EQ(CallTare({"make"}).exit_code, 2);
  const Outcome itself = CallTare({"make", "shots", "--text", folder_ / "t.txt", "--out", folder_ / "t.txt"});
  EXPECT_EQ(itself.exit_code, 1);
  const std::string text = "perplexity=" + (folder_ / "t.txt").string();
  EXPECT_EQ(CallTare({"eval", model_, "--tasks", text, "--by", "depth"}).exit_code, 2) << "a text has no items";
  ASSERT_EQ(Make({"shots", "--shots", "4", "--samples", "1", "--seeds", "1"}).exit_code, 0);
  const Outcome unknown = Eval({"--by", "depth"});
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_THAT(unknown.err, HasSubstr("items.jsonl: line 1: got an item without \"depth\", expected one of its keys: "
                                     "classes, maker, order, sample, seed, shots"));
}

}  // namespace
}  // namespace tare::make_test
