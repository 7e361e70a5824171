// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "quant/file/atomic_file.h"
#include "tests/support/call_tare.h"
#include "tests/support/checkpoint.h"
#include "tests/support/golden.h"
#include "tests/support/ids.h"
#include "tests/support/run_command.h"

namespace tare::sweep_test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

class SweepCommandTest : public testing::Test {
 protected:
  SweepCommandTest() { PutManyIds(folder_ / "ids.safetensors", 2, 20); }

  std::vector<std::string> Sweep(const std::string& out, const std::vector<std::string>& options = {}) {
    std::vector<std::string> command{"sweep",
                                     "--bits",
                                     "16,8,4",
                                     GoldenFolder("llama-mha"),
                                     GoldenFolder("diffllama-mha"),
                                     "--tasks",
                                     "perplexity=" + (folder_ / "ids.safetensors").string(),
                                     "--out",
                                     folder_ / out};
    command.insert(command.end(), options.begin(), options.end());
    return command;
  }
  std::vector<std::string> Names(const std::string& folder) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_ / folder)) names.push_back(entry.path().filename());
    return names;
  }
  std::string Get(const std::string& folder, const std::string& name) { return GetFile(folder_ / folder / name); }
  bool HasCell(const std::string& folder) { return Get(folder, "cells.jsonl").contains('\n'); }

  TemporaryFolder folder_;
};

TEST_F(SweepCommandTest, EveryCellStandsInTheTables) {
  const Outcome outcome = CallTare(Sweep("s", {"--granularity", "row,tensor", "--json", folder_ / "s.json"}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(Names("s"), UnorderedElementsAre("cells.jsonl", "table.csv", "table.json", "table.txt"));
  EXPECT_THAT(outcome.out, StartsWith(Get("s", "table.txt")));
  for (const char* part : {"perplexity:ids, perplexity\n", "\nllama-mha\n", "\ndiffllama-mha\n", "  unquantized ",
                           "  attn_logits=int4/tensor ", "change from unquantized\n",
                           "  2 windows of 20, stride 19, without <s>: 38 tokens scored\n"})
    EXPECT_THAT(outcome.out, HasSubstr(part));

  const Json json = Json::parse(Get("s", "table.json"));
  EXPECT_EQ(json.at("schema"), "tare.sweep/3");
  ASSERT_EQ(json.at("cells").size(), 2u * (1 + 2 * 2));  // 16 bits is one cell whatever the granularity
  const Json& last = json["cells"].back();
  EXPECT_EQ(last.at("model"), "diffllama-mha");
  EXPECT_EQ(last.at("site"), "attn_logits");
  EXPECT_EQ(last.at("format"), "int4");
  EXPECT_EQ(last.at("granularity"), "tensor");
  EXPECT_EQ(last.at("bits"), 4);
  EXPECT_EQ(last.at("key").at("plan"), "attn_logits=int4/tensor");
  EXPECT_TRUE(last.at("result").at("perplexity").is_number());
  EXPECT_EQ(GetFile(folder_ / "s.json"), Get("s", "table.json"));
  EXPECT_EQ(std::ranges::count(Get("s", "table.csv"), '\n'), 1 + 2 * 10);  // perplexity and nll
  EXPECT_EQ(std::ranges::count(Get("s", "cells.jsonl"), '\n'), 2 * (1 + 2 * 2));
}

TEST_F(SweepCommandTest, ChangesAreFrom16BitsOfTheSameModel) {
  ASSERT_EQ(CallTare(Sweep("s")).exit_code, 0);
  const Json table = Json::parse(Get("s", "table.json"));
  for (const Json& cell : table.at("cells")) {
    const std::string plan = cell["bits"] == 16 ? "f32" : "attn_logits=int" + cell["bits"].dump() + "/row";
    const Outcome alone =
        CallTare({"eval", GoldenFolder(cell["model"]), "--tasks",
                  "perplexity=" + (folder_ / "ids.safetensors").string(), "--plan", plan, "--json", "-"});
    EXPECT_EQ(Json::parse(alone.out).at("tasks").at("perplexity:ids").at("perplexity"), cell["result"]["perplexity"]);
  }
}

TEST_F(SweepCommandTest, EquivalenceIsJudgedWhereAsked) {
  PutManyIds(folder_ / "ids.safetensors", 20, 20);
  const Outcome outcome = CallTare(Sweep("s", {"--equivalent", "50%"}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("\n    lossless within 50 % ("));
  const Json table = Json::parse(Get("s", "table.json"));
  EXPECT_EQ(table.at("margin"), 0.5);
  EXPECT_EQ(table["cells"][1].at("changes").at(0).at("equivalence").at("verdict"), "lossless");
  for (const char* margin : {"-1%", "0%", "0.5", "100%", "x"}) {
    const Outcome refused = CallTare(Sweep("t", {std::string("--equivalent=") + margin}));
    EXPECT_EQ(refused.exit_code, 2) << margin;
    EXPECT_THAT(refused.err, HasSubstr("expected a percentage above 0 and below 100; try 0.5%")) << margin;
  }
}

TEST_F(SweepCommandTest, JsonOnStandardOutputStandsAlone) {
  const Outcome outcome = CallTare(Sweep("s", {"--json", "-"}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, Get("s", "table.json"));
  EXPECT_EQ(outcome.err, "");
}

TEST_F(SweepCommandTest, AFinishedSweepRunsNothingAgain) {
  ASSERT_EQ(CallTare(Sweep("s")).exit_code, 0);
  const std::string cells = Get("s", "cells.jsonl"), table = Get("s", "table.csv");
  ASSERT_EQ(CallTare(Sweep("s")).exit_code, 0);
  EXPECT_EQ(Get("s", "cells.jsonl"), cells);
  EXPECT_EQ(Get("s", "table.csv"), table);
}

TEST_F(SweepCommandTest, StaticScalesTakeAStatisticsFileAModel) {
  std::vector<std::string> options{"--granularity", "tensor+static"};
  for (const char* name : {"llama-mha", "diffllama-mha"}) {
    const std::string file = folder_ / (std::string(name) + ".h5");
    ASSERT_EQ(CallTare({"stats", GoldenFolder(name), "--input", folder_ / "ids.safetensors", "--out", file}).exit_code,
              0);
    options.insert(options.end(), {"--stats", file});
  }
  const Outcome outcome = CallTare(Sweep("s", options));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const Json last = Json::parse(Get("s", "table.json")).at("cells").back();
  EXPECT_EQ(last.at("key").at("plan"), "attn_logits=int4/tensor+static");
  EXPECT_EQ(last.at("key").at("stats").get<std::string>().size(), 64u);
  options.resize(4);
  const Outcome refused = CallTare(Sweep("x", options));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--stats: got 1 files, expected one per model"));
}

// Killed or interrupted once its first cell is written: a machine that was done before the signal came gets a longer
// text.
class SweepEndsBySignal : public SweepCommandTest, public testing::WithParamInterface<int> {};

TEST_P(SweepEndsBySignal, AndContinuesToTheSameTable) {
  const int signal = GetParam();
  Outcome first;
  for (int64_t rows = 16; rows <= 256; rows *= 4) {
    fs::remove_all(folder_ / "s");
    PutManyIds(folder_ / "ids.safetensors", rows, 256);
    RunningCommand command(TareCommand(Sweep("s")));
    command.SignalOnce([&] { return HasCell("s"); }, signal);
    first = command.Wait();
    if (first.exit_code != 0) break;
  }
  EXPECT_EQ(first.exit_code, -signal);
  EXPECT_EQ(first.out, "");
  EXPECT_THAT(first.err,
              testing::MatchesRegex(signal == SIGKILL ? std::string()
                                                      : "tare: interrupted: no half-written file was left behind; " +
                                                            (folder_ / "s").string() +
                                                            " keeps [0-9]+ finished runs?, and the same command "
                                                            "continues\n"));
  // A kill leaves the empty claims of what was to be written; the next run removes them.
  std::vector<std::string> left = Names("s");
  if (signal == SIGKILL) std::erase_if(left, [](const std::string& name) { return name.ends_with(".tmp"); });
  EXPECT_THAT(left, UnorderedElementsAre("cells.jsonl"));
  const std::string cells = Get("s", "cells.jsonl");

  const Outcome second = CallTare(Sweep("s"));
  ASSERT_EQ(second.exit_code, 0);
  EXPECT_THAT(second.err, testing::ContainsRegex("s: continues from [0-9]+ of [0-9]+ runs of "));
  EXPECT_THAT(Get("s", "cells.jsonl"), StartsWith(cells));
  ASSERT_EQ(CallTare(Sweep("whole")).exit_code, 0);
  EXPECT_THAT(Names("s"), testing::UnorderedElementsAreArray(Names("whole")));
  for (const std::string& name : Names("whole")) EXPECT_EQ(Get("s", name), Get("whole", name)) << name;
}

INSTANTIATE_TEST_SUITE_P(Signals, SweepEndsBySignal, testing::Values(SIGINT, SIGTERM, SIGKILL),
                         [](const auto& test) { return std::string(sigabbrev_np(test.param)); });

TEST_F(SweepCommandTest, ALineThatWasCutShortRunsAgain) {
  ASSERT_EQ(CallTare(Sweep("s")).exit_code, 0);
  const std::string cells = Get("s", "cells.jsonl"), table = Get("s", "table.txt");
  fs::remove(folder_ / "s" / "table.txt");
  PutFile(folder_ / "s" / "cells.jsonl", cells.substr(0, cells.size() - 30));
  ASSERT_EQ(CallTare(Sweep("s")).exit_code, 0);
  EXPECT_EQ(Get("s", "cells.jsonl"), cells);
  EXPECT_EQ(Get("s", "table.txt"), table);
}

TEST_F(SweepCommandTest, NamesStandInTablesAsTheyAre) {
  const fs::path model = folder_ / "a,\"b";
  EditedCheckpoint(GoldenFolder("llama-mha")).Write(model);
  ASSERT_EQ(CallTare({"sweep", model, "--bits", "16", "--tasks", "perplexity=" + (folder_ / "ids.safetensors").string(),
                      "--out", folder_ / "s"})
                .exit_code,
            0);
  EXPECT_THAT(Get("s", "table.csv"), HasSubstr("\n\"a,\"\"b\",perplexity:ids,,,,16,,,,f32,0,perplexity,"));
  EXPECT_THAT(Get("s", "table.txt"), HasSubstr("a,\"b"));
}

// One site after the other, none within the line of a terminal that is 80 wide.
TEST_F(SweepCommandTest, EachSiteAlone) {
  const Outcome outcome = CallTare(Sweep("s", {"--site", "q,attn_logits,o_proj.in", "--each-site"}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("granularity row: token, the nearest available, is used for q, o_proj.in\n"));
  for (const char* row : {"  unquantized ", "  q=int4/token ", "  attn_logits=int4/row ", "  o_proj.in=int8/token "})
    EXPECT_THAT(outcome.out, HasSubstr(row));
  EXPECT_EQ(std::ranges::count(Get("s", "cells.jsonl"), '\n'), 2 * (1 + 3 * 2));
  const std::string table = Get("s", "table.txt");
  size_t begin = 0;
  for (size_t end; (end = table.find('\n', begin)) != std::string::npos; begin = end + 1)
    EXPECT_LE(end - begin, 80u) << table.substr(begin, end - begin);
}

TEST_F(SweepCommandTest, CachesAreSweptLikeEvals) {
  const Outcome outcome = CallTare(Sweep("c", {"--site", "cache_k,cache_v", "--granularity", "token"}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("cache_k=int4/token,cache_v=int4/token"));
  const Json cell = Json::parse(ReadLines(folder_ / "c" / "cells.jsonl")[2]);
  EXPECT_EQ(cell["key"]["plan"], "cache_k=int4/token,cache_v=int4/token");
  EXPECT_FALSE(cell["key"].contains("cache"));
  const Outcome eval =
      CallTare({"eval", GoldenFolder("llama-mha"), "--tasks", "perplexity=" + (folder_ / "ids.safetensors").string(),
                "--cache", "cache_k=int4/token,cache_v=int4/token", "--json", "-"});
  EXPECT_EQ(cell["result"]["nll"], Json::parse(eval.out)["tasks"]["perplexity:ids"]["nll"]);
  // A policy is of every cell, of f32 too.
  ASSERT_EQ(CallTare(Sweep("p", {"--site", "cache_k", "--granularity", "token", "--cache", "last=4"})).exit_code, 0);
  for (const std::string& line : ReadLines(folder_ / "p" / "cells.jsonl"))
    EXPECT_EQ(Json::parse(line)["key"]["cache"], "cache_k=f32,cache_v=f32,last=4");
}

TEST_F(SweepCommandTest, VersionsRunAsStoredBesideTheirSource) {
  const std::string source = GoldenFolder("llama-mha"), file = folder_ / "q.h5";
  ASSERT_EQ(CallTare({"quantize", source, "--plan", "weights=int4/channel", "--out", file}).exit_code, 0);
  const std::vector<std::string> sweep{"sweep", file,         "--source",
                                       source,  "--tasks",    "perplexity=" + (folder_ / "ids.safetensors").string(),
                                       "--out", folder_ / "v"};
  const Outcome outcome = CallTare(sweep);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("bits per weight"), HasSubstr("change: from llama-mha\n"), HasSubstr("\n  q.h5  ")));
  const Json table = Json::parse(Get("v", "table.json"));
  ASSERT_EQ(table["cells"].size(), 2u);
  EXPECT_EQ(table["cells"][1]["key"]["plan"], "f32");
  ASSERT_EQ(table["sizes"].size(), 2u);
  EXPECT_LT(table["sizes"][1]["bits_per_weight"], table["sizes"][0]["bits_per_weight"]);
  EXPECT_LT(table["sizes"][1]["quantized_bits"], table["sizes"][1]["bits_per_weight"]);
  EXPECT_FALSE(table["sizes"][0].contains("quantized_bits"));
  std::vector<std::string> twice = sweep;
  twice.insert(twice.begin() + 1, source);
  EXPECT_THAT(CallTare(twice).err, HasSubstr("llama-mha twice"));
}

TEST_F(SweepCommandTest, WithoutASourceAQuantizedFileIsSaid) {
  const std::string file = folder_ / "q.h5";
  ASSERT_EQ(
      CallTare({"quantize", GoldenFolder("llama-mha"), "--plan", "weights=int4/channel", "--out", file}).exit_code, 0);
  const std::vector<std::string> sweep{"sweep", file,         "--bits",
                                       "16,4",  "--tasks",    "perplexity=" + (folder_ / "ids.safetensors").string(),
                                       "--out", folder_ / "q"};
  const Outcome outcome = CallTare(sweep);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("warning: q.h5: quantized already; `unquantized` is the file as stored"),
                                 HasSubstr("try --source MODEL")));
  EXPECT_EQ(CallTare(Sweep("s")).err, "");
}

// Their rows stand beside each other's, though each took another part of its file.
TEST_F(SweepCommandTest, ASecondTaskKeepsTheTablesOfTheFirst) {
  ASSERT_EQ(CallTare(Sweep("s")).exit_code, 0);
  fs::copy(folder_ / "ids.safetensors", folder_ / "other.safetensors");
  std::vector<std::string> second = Sweep("s", {"--limit", "1"});
  *std::ranges::find(second, "perplexity=" + (folder_ / "ids.safetensors").string()) =
      "perplexity=" + (folder_ / "other.safetensors").string();
  const Outcome outcome = CallTare(second);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, Not(HasSubstr("not in the tables")));
  EXPECT_THAT(Get("s", "table.txt"), AllOf(HasSubstr("perplexity:other, "), HasSubstr("perplexity:ids, ")));
  EXPECT_THAT(outcome.out, HasSubstr("table.txt are in\n" + (folder_ / "s").string() + " (replaced)\n"));
}

TEST_F(SweepCommandTest, ImpossibleCellsAreRefusedFirst) {
  const std::vector<std::pair<std::vector<std::string>, const char*>> cases{
      {{folder_ / "none"}, "none: no such folder"},
      {{GoldenFolder("llama-mha")}, "llama-mha twice"},
      {{"--site", "cache_k,attn_logits", "--granularity", "token"}, "plan over a cache: got a rule for attn_logits"},
      {{"--site", "cache_k[l2]", "--granularity", "token"}, "got layer 2 of cache_k, expected 0 to 1"},
      {{"--cache", "first=4"}, "plan over a cache: got a rule for attn_logits"},
      {{"--site", "attn_logits[l2]"}, "got layer 2 of attn_logits, expected 0 to 1"},
      {{"--granularity", "group64"}, "got 'group64'"},
      {{"--granularity", "row,row"}, "row twice"}};
  for (const auto& [options, why] : cases) {
    const Outcome outcome = CallTare(Sweep("s", options));
    EXPECT_EQ(outcome.exit_code, RefusalCode(outcome.err));
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, HasSubstr(why));
    EXPECT_FALSE(fs::exists(folder_ / "s")) << why;
  }
}

}  // namespace
}  // namespace tare::sweep_test
