// SPDX-License-Identifier: Apache-2.0
// Statistics files from the command: shards, merging, resuming after SIGKILL, showing and comparing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <optional>

#include <nlohmann/json.hpp>

#include "quant/file/hdf5.h"
#include "quant/file/sha256.h"
#include "tests/support/call_tare.h"
#include "tests/support/golden.h"
#include "tests/support/ids.h"
#include "tests/support/run_command.h"

namespace tare::stats_files_test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

constexpr const char* kFormats = "int8/row,int4/channel";  // in one pass, and in two

class StatsFilesTest : public testing::Test {
 protected:
  Words Collect(const std::string& out, const Words& more = {}, const std::string& model = "diffllama-gqa") {
    Words command{"stats", GoldenFolder(model), "--input", ids_, "--out", folder_ / out, "--json", folder_ / "json"};
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }
  void Done(const Words& command) {
    const Outcome outcome = CallTare(command);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  }
  // exit_code: where none is given, the code that fits the message.
  void Refused(const Words& command, const Words& words, std::optional<int> exit_code = {}) {
    const Outcome outcome = CallTare(command);
    EXPECT_EQ(outcome.exit_code, exit_code.value_or(RefusalCode(outcome.err))) << outcome.out;
    for (const std::string& word : words) EXPECT_THAT(outcome.err, HasSubstr(word));
  }
  std::string Hash(const std::string& name) { return Sha256OfFile(folder_ / name); }
  Json ShowJson(const std::string& name, Words options) {
    Words command{"stats", "show", folder_ / name, "--json", "-"};
    command.insert(command.end(), options.begin(), options.end());
    const Outcome outcome = CallTare(command);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return Json::parse(outcome.out);
  }

  TemporaryFolder folder_;
  const std::string ids_ = folder_ / "ids.safetensors";
};

TEST_F(StatsFilesTest, TheTableIsTheSameWithAFileAndWithout) {
  PutManyIds(ids_, 3, 40);
  Done(Collect("s.h5"));
  Json with = Json::parse(GetFile(folder_ / "json"));
  const Outcome plain = CallTare({"stats", GoldenFolder("diffllama-gqa"), "--input", ids_, "--json", "-"});
  EXPECT_EQ(with.erase("statistics"), 1u);
  EXPECT_EQ(with, Json::parse(plain.out));
}

TEST_F(StatsFilesTest, ShardsMergeToTheBytesOfTheWhole) {
  PutManyIds(ids_, 3, 1400);  // 66 windows of 64: three batches
  Done(Collect("whole.h5", {"--formats", kFormats, "--threads", "1", "--window", "64"}, "llama-gqa"));
  for (const std::string i : {"0", "1", "2"}) {
    Done(Collect(i + ".h5", {"--formats", kFormats, "--threads", "2", "--shard", i + "/3", "--window", "64"},
                 "llama-gqa"));
  }
  Done({"stats", "merge", folder_ / "2.h5", folder_ / "0.h5", "--out", folder_ / "part.h5"});
  EXPECT_FALSE(ShowJson("part.h5", {})["whole"].get<bool>());
  Done({"stats", "merge", folder_ / "1.h5", folder_ / "part.h5", "--out", folder_ / "merged.h5"});
  EXPECT_EQ(Hash("merged.h5"), Hash("whole.h5"));
  Refused({"stats", "merge", folder_ / "part.h5", folder_ / "0.h5", "--out", folder_ / "x.h5"},
          {"unit 0 of", "part.h5; expected each shard once"});
  EXPECT_FALSE(fs::exists(folder_ / "x.h5"));
}

TEST_F(StatsFilesTest, KilledAndResumedItEndsInTheSameBytes) {
  PutManyIds(ids_, 12, 256);
  const Words more = {"--checkpoint", "1",          "--window", "256", "--sites", "attn_logits,probs,layer_out,weights",
                      "--formats",    "int6/tensor"};
  Done(Collect("whole.h5", more, "llama-gqa"));
  int killed = 0;
  for (int round = 0; round < 20 && killed < 3; ++round) {
    fs::remove(folder_ / "r.h5");  // of a run that was over before it was struck
    const std::string before = fs::exists(folder_ / "r.h5.part") ? GetFile(folder_ / "r.h5.part") : "";
    RunningCommand command(TareCommand(Collect("r.h5", more, "llama-gqa")));
    command.SignalOnce([&] { return fs::exists(folder_ / "r.h5.part") && GetFile(folder_ / "r.h5.part") != before; },
                       SIGKILL);
    if (command.Wait().exit_code == -SIGKILL) ++killed;
  }
  EXPECT_GT(killed, 0);
  Done(Collect("r.h5", more, "llama-gqa"));
  EXPECT_EQ(Hash("r.h5"), Hash("whole.h5"));
  EXPECT_FALSE(fs::exists(folder_ / "r.h5.part"));
  const Outcome again = CallTare(Collect("r.h5", more, "llama-gqa"));  // nothing is left to do
  EXPECT_THAT(again.err, HasSubstr("r.h5: continues from 3072 of 3072 tokens\n"));
  EXPECT_THAT(again.out, HasSubstr("r.h5 (replaced): every site"));
  EXPECT_EQ(Hash("r.h5"), Hash("whole.h5"));
  Words fresh = more;
  fresh.push_back("--fresh");
  EXPECT_EQ(CallTare(Collect("r.h5", fresh, "llama-gqa")).err, "");
  EXPECT_EQ(Hash("r.h5"), Hash("whole.h5"));
}

// The last line says what is kept; the next run says where it begins, and another command by which option it differs.
TEST_F(StatsFilesTest, InterruptedItSaysWhatIsKeptAndByWhatAnotherCommandDiffers) {
  PutManyIds(ids_, 64, 512);
  const Words job = {"--checkpoint", "1", "--sites", "layer_out"};
  RunningCommand command(TareCommand(Collect("r.h5", job, "llama-gqa")));
  command.SignalOnce([&] { return fs::exists(folder_ / "r.h5.part"); }, SIGINT);
  const Outcome stopped = command.Wait();
  ASSERT_EQ(stopped.exit_code, -SIGINT);
  EXPECT_THAT(stopped.err, testing::ContainsRegex("r.h5.part keeps [0-9]+ of 32768 tokens, and the same command "
                                                  "continues\n$"));
  const std::string kept = Hash("r.h5.part");
  Words other = job;
  other.insert(other.end(), {"--limit", "9"});
  Refused(Collect("r.h5", other, "llama-gqa"),
          {"r.h5.part: is of another job: --limit was not given, is 9; try --fresh to start over, or another --out"});
  EXPECT_EQ(Hash("r.h5.part"), kept);
  PutFile(folder_ / "r.h5.part", "mine");
  Refused(Collect("r.h5", job, "llama-gqa"), {"r.h5.part: got a file that this command did not write"});
}

TEST_F(StatsFilesTest, OtherJobsAreNeitherResumedNorMerged) {
  PutManyIds(ids_, 3, 40);
  Done(Collect("a.h5"));
  Done(Collect("b.h5", {"--limit", "2"}));
  Done(Collect("c.h5", {"--sites", "q"}));
  Refused({"stats", "merge", folder_ / "a.h5", folder_ / "b.h5", "--out", folder_ / "x.h5"},
          {"b.h5: got sequences 2, expected 3"});
  Refused({"stats", "merge", folder_ / "a.h5", folder_ / "c.h5", "--out", folder_ / "x.h5"},
          {"got sites q, expected all"});
  fs::rename(folder_ / "b.h5", folder_ / "d.h5.part");  // of a version that did not keep its options
  Refused(Collect("d.h5"), {"d.h5.part: is of another job: it differs in sequences; try --fresh"});
  Done(Collect("d.h5", {"--fresh"}));
  EXPECT_EQ(Hash("d.h5"), Hash("a.h5"));
  EXPECT_FALSE(fs::exists(folder_ / "d.h5.part"));
}

// A file of weights under other names of its tensors is another model.
TEST_F(StatsFilesTest, UnderOtherTensorNamesAJobIsNotContinued) {
  PutManyIds(ids_, 3, 40);
  const fs::path model = folder_ / "m";
  fs::copy(GoldenFolder("llama-gqa"), model);
  const auto name = [&](const char* gate, const char* up) {
    const std::string mlp = "model.layers.{}.mlp.", end = "_proj.weight";
    const Json names{{mlp + "gate" + end, mlp + gate + end}, {mlp + "up" + end, mlp + up + end}};
    PutFile(model / "tensor-names.json", Json{{"names", names}}.dump());
  };
  const Words job{"stats", model, "--input", ids_, "--out", folder_ / "s.h5"};
  name("up", "gate");
  Done(job);
  const std::string whole = Hash("s.h5");
  name("gate", "up");
  fs::rename(folder_ / "s.h5", folder_ / "s.h5.part");
  Refused(job, {"s.h5.part: is of another job: it differs in weights_sha256"});
  EXPECT_EQ(Hash("s.h5.part"), whole);
  name("up", "gate");
  Done(job);
  EXPECT_EQ(Hash("s.h5"), whole);
}

TEST_F(StatsFilesTest, ShowsRowsOfSitesWithHeadsAndWithout) {
  PutManyIds(ids_, 2, 40);
  Done(Collect("s.h5"));
  const Json logits = ShowJson("s.h5", {"--site", "attn_logits", "--layer", "1"});
  EXPECT_EQ(logits["schema"], "tare.stats.site/2");
  EXPECT_EQ(logits["site"], "attn_logits");
  const Json& row = logits["rows"].at(0);
  Words keys;
  for (const auto& [key, value] : row.items()) keys.push_back(key);
  EXPECT_THAT(keys, testing::UnorderedElementsAre("layer", "head", "map", "from", "count", "absmax", "mean", "variance",
                                                  "kurtosis", "median", "p99", "p999", "p9999"));
  EXPECT_EQ(row["layer"], 1);
  EXPECT_EQ(row["map"], 1);
  EXPECT_EQ(row["from"], 0);
  EXPECT_EQ(row["count"], 2 * (40 * 41 / 2 - 1));  // without the row of one key
  EXPECT_GE(row["absmax"].get<double>(), row["p999"].get<double>() * (1 - 0x1p-8));
  const Json embed = ShowJson("s.h5", {"--site", "embed"});
  ASSERT_EQ(embed["rows"].size(), 2u);
  EXPECT_EQ(embed["rows"][1]["from"], 1);
  for (const char* key : {"layer", "head", "map"}) EXPECT_TRUE(embed["rows"][0][key].is_null());
  const Json difference = ShowJson("s.h5", {"--site", "difference", "--measures"});
  EXPECT_TRUE(difference["rows"][0]["measures"]["lambda"].is_number());
  EXPECT_TRUE(difference["rows"][0]["map"].is_null());
  const Outcome csv = CallTare({"stats", "show", folder_ / "s.h5", "--site", "layer_out", "--csv", folder_ / "c.csv"});
  EXPECT_THAT(GetFile(folder_ / "c.csv"), testing::StartsWith("site,layer,head,map,from,count,absmax,mean,"));
  EXPECT_THAT(csv.out, HasSubstr("kurtosis"));
}

TEST_F(StatsFilesTest, AllSitesAtOnceWithWhatFormatsLose) {
  PutManyIds(ids_, 2, 40);
  Done(Collect("s.h5", {"--formats", "int8/row,int4/channel", "--sites", "q,probs"}));
  const Outcome shown = CallTare({"stats", "show", folder_ / "s.h5", "--csv", folder_ / "all.csv"});
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("SQNR in dB"));
  const std::string csv = GetFile(folder_ / "all.csv");
  EXPECT_THAT(csv, HasSubstr(",int8/row.sqnr_db,int4/channel.sqnr_db\nq,0,0,1,"));
  EXPECT_THAT(csv, HasSubstr("\nprobs,0,0,1,"));
  EXPECT_GT(ShowJson("s.h5", {})["sqnr_db"]["q"]["int8/row.sqnr_db"].get<double>(), 30.0);
  const Hdf5Reader file(folder_ / "s.h5");
  EXPECT_EQ(file.StringAttribute("probs/sqnr_db", "formats"), "int8/row");  // channels of maps are none
  Refused({"stats", "show", folder_ / "s.h5", "--measures"}, {"nor --csv"}, 2);
  const Outcome layer = CallTare({"stats", "show", folder_ / "s.h5", "--layer", "1"});
  EXPECT_THAT(layer.out, testing::ContainsRegex("^site +absmax +layer .*\nq +[0-9.]+ +1 +[0-9]+ +[0-9]+ "));
}

TEST_F(StatsFilesTest, DiffShowsDifferences) {
  PutManyIds(ids_, 6, 40);
  Done(Collect("a.h5", {}, "llama-mha"));
  Done(Collect("b.h5", {}, "llama-mha"));
  Done(Collect("c.h5", {}, "diffllama-mha"));
  const Outcome same =
      CallTare({"stats", "diff", folder_ / "a.h5", folder_ / "b.h5", "--site", "layer_out", "--json", "-"});
  const Json none = Json::parse(same.out);
  EXPECT_TRUE(none["paired"].get<bool>());
  for (const Json& row : none["rows"]) {
    if (row["a"].is_null()) continue;
    EXPECT_EQ(row["difference"], 0.0);
    EXPECT_EQ(row["low"], row["measure"] == "absmax" ? Json() : Json(0.0));
  }
  const Outcome other = CallTare({"stats", "diff", folder_ / "a.h5", folder_ / "c.h5", "--json", "-"});
  bool clear = false;
  const Json compared = Json::parse(other.out);
  for (const Json& row : compared["rows"]) {
    if (row["low"].is_null()) continue;
    EXPECT_LE(row["low"].get<double>(), row["high"].get<double>());
    clear = clear || row["low"].get<double>() > 0 || row["high"].get<double>() < 0;
  }
  EXPECT_TRUE(clear);
  const Outcome table = CallTare({"stats", "diff", folder_ / "a.h5", folder_ / "c.h5", "--site", "attn_logits"});
  EXPECT_THAT(table.out, HasSubstr("A is llama-mha, B is diffllama-mha\n"));
  EXPECT_THAT(table.out, HasSubstr("\nattn_logits, layer 1, all positions\n"));
  EXPECT_THAT(table.out, testing::AllOf(HasSubstr("* p < 0.05 by Holm over "), HasSubstr("the middle 95 % of 1000"),
                                        HasSubstr("one sample of training")));
}

TEST_F(StatsFilesTest, DiffOfWholeFilesShowsTheLargest) {
  PutManyIds(ids_, 6, 40);
  Done(Collect("a.h5", {}, "llama-mha"));
  Done(Collect("b.h5", {}, "llama-mha"));
  Done(Collect("c.h5", {}, "diffllama-mha"));
  const auto diff = [&](const char* other, const char* option) {
    std::vector<std::string> words{"stats", "diff", folder_ / "a.h5", folder_ / other, "--draws", "20"};
    if (*option != 0) words.emplace_back(option);
    const std::string out = CallTare(words).out;
    return std::pair(out, std::ranges::count(out, '\n'));
  };
  const auto [same, line] = diff("b.h5", "");
  EXPECT_THAT(same, testing::MatchesRegex("nothing differs \\([0-9,]+ rows compared\\)\n"));
  EXPECT_EQ(line, 1);
  const auto [largest, few] = diff("c.h5", "");
  EXPECT_THAT(
      largest,
      HasSubstr("\nthe 20 largest of absmax and kurtosis, relative to A and B, those with * first;\n--all shows "));
  EXPECT_THAT(largest,
              testing::ContainsRegex("\nThe largest magnitude of B is above that of A\\s+at [0-9]+ of [0-9]+"));
  EXPECT_THAT(largest, testing::ContainsRegex("\nThe kurtosis of B is above that of A at [0-9]+ of [0-9]+"));
  EXPECT_LE(few, 20 * 4 + 20);  // each row at most with a gap, its place and titles; the models and the legend
  EXPECT_GT(diff("c.h5", "--all").second, 5 * few);
}

TEST_F(StatsFilesTest, NoIntervalsAreExplainedWhereThereAreNone) {
  PutManyIds(ids_, 1, 40);
  Done(Collect("a.h5", {}, "llama-mha"));
  Done(Collect("c.h5", {}, "diffllama-mha"));
  const std::string out = CallTare({"stats", "diff", folder_ / "a.h5", folder_ / "c.h5"}).out;
  EXPECT_THAT(out, HasSubstr("\nno intervals of one sequence or group of sequences\n"));
  EXPECT_FALSE(out.contains("bootstrap"));
}

TEST_F(StatsFilesTest, BadInputIsRefusedByName) {
  PutManyIds(ids_, 2, 20);
  Refused(Collect("x.h5", {"--sites", "attn_logits[l99]"}),
          {"--sites 'attn_logits[l99]'", "got layer 99 of attn_logits"});
  Refused(Collect("x.h5", {"--formats", "int8/block4.channel"}), {"--formats 'int8/block4.channel'"});
  Refused(Collect("x.h5", {"--formats", "int8/channel", "--sites", "probs"}), {"--formats: int8/channel: got none of"});
  Refused(Collect("x.h5", {"--shard", "2/2"}), {"--shard: got '2/2'"});
  Refused(Collect("x.h5", {"--shard", "0/9"}), {"--shard: got 9 shards, expected at most 1"});
  Refused(Collect("no/x.h5"), {"x.h5"});
  Refused({"stats", "show", ids_}, {"ids.safetensors"});
  Refused({"stats", GoldenFolder("llama-mha"), "--input", ids_, "--sites", "q"}, {"--out"}, 2);
  PutFile(folder_ / "spans", "{\"sequence\": 0, \"answer\": [[1, 99]]}\n");
  Refused(Collect("x.h5", {"--spans", folder_ / "spans"}), {"spans: line 1: answer: got [1, 99]", "20 positions"});
  EXPECT_FALSE(fs::exists(folder_ / "x.h5"));
  Done(Collect("s.h5", {"--sites", "q"}));
  Refused({"stats", "show", folder_ / "s.h5", "--site", "v"}, {"--site v: got no statistics of it, expected one of q"});
  Refused({"stats", "show", folder_ / "s.h5", "--site", "logits"},
          {"--site: got 'logits', expected a site; the nearest is attn_logits, one of o_proj.w "
           "o_proj.in q_norm q attn_logits probs difference head_out attn_gate attn_out\n"});
  Refused({"stats", "show", folder_ / "s.h5", "--site", "zzzzzz"},
          {"--site: got 'zzzzzz', expected a site; tare help plan lists them\n"});
  Refused({"stats", "show", folder_ / "s.h5", "--site", "q", "--layer", "77"},
          {"--layer 77: got no statistics of it at any site of the file, expected one of 0"});
}

TEST_F(StatsFilesTest, AFullDiskLeavesNothing) {
  PutManyIds(ids_, 2, 20);
  const Outcome outcome = StartTare(Collect("x.h5"), {.file_bytes = 100000});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("x.h5"));
  EXPECT_FALSE(fs::exists(folder_ / "x.h5"));
}

}  // namespace
}  // namespace tare::stats_files_test
