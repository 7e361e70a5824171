// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "quant/file/sha256.h"
#include "tests/support/call_tare.h"
#include "tests/support/checkpoint.h"
#include "tests/support/golden.h"
#include "tests/support/ids.h"

namespace tare::compare_test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

class CompareCommandTest : public testing::Test {
 protected:
  CompareCommandTest() { PutManyIds(folder_ / "ids.safetensors", 20, 20); }

  Outcome Compare(std::vector<std::string> options) {
    options.insert(options.begin(),
                   {"compare", GoldenFolder("llama-mha"), GoldenFolder("diffllama-mha"), "--out", folder_ / "out"});
    if (!std::ranges::contains(options, "--tasks"))
      options.insert(options.end(), {"--tasks", "perplexity=" + (folder_ / "ids.safetensors").string()});
    return CallTare(options);
  }
  std::string Get(const char* name) { return GetFile(folder_ / "out" / name); }

  TemporaryFolder folder_;
};

// 16 bits come by themselves, and divergence with perplexity; twenty windows are enough for intervals.
TEST_F(CompareCommandTest, ShowsOutliersCurvesAndTheDifferenceOfDrops) {
  const Outcome outcome = Compare({"--bits", "4"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, StartsWith(Get("compare.txt")));
  for (const char* part :
       {"attn_logits", "layer_out", "perplexity:ids, perplexity\n", "divergence:ids, kld\n", "  unquantized ",
        "change of diffllama-mha minus that of llama-mha\n", "one pair of models is one sample"})
    EXPECT_THAT(outcome.out, HasSubstr(part));
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder_ / "out")) names.push_back(entry.path().filename());
  EXPECT_THAT(names, UnorderedElementsAre("cells.jsonl", "table.csv", "table.json", "table.txt", "outliers.jsonl",
                                          "outliers.csv", "attribution-A", "attribution-B", "attribution.csv",
                                          "compare.txt", "compare.json"));
  const Json json = Json::parse(Get("compare.json"));
  EXPECT_EQ(json.at("schema"), "tare.compare/1");
  ASSERT_EQ(json.at("outliers").size(), 2u);
  EXPECT_EQ(json["outliers"][1].at("model"), "diffllama-mha");
  EXPECT_EQ(json.at("sweep"), Json::parse(Get("table.json")));
  ASSERT_EQ(json["sweep"].at("cells").size(), 2u * 2 * 2);
  const Json& difference = json["sweep"]["cells"].back().at("differences").at(0);
  EXPECT_EQ(difference.at("figure"), "kld");
  EXPECT_EQ(difference.at("against"), "llama-mha");
  EXPECT_TRUE(difference.at("low").is_number());
  // The page shows parts alone, and nothing else is run for it: f32, the plan and each part.
  for (const char* of : {"A", "B"}) {
    const Json attribution = Json::parse(Get((std::string("attribution-") + of + "/attribution.json").c_str()));
    const Json& parts = attribution.at("figures").at(0).at("parts");
    const std::string cells = Get((std::string("attribution-") + of + "/cells.jsonl").c_str());
    EXPECT_EQ(std::ranges::count(cells, '\n'), 2 + std::ssize(parts));
    for (const Json& part : parts) EXPECT_TRUE(part.at("taken_out").is_null());
  }
}

TEST_F(CompareCommandTest, FinishedCellsAreNotRunAgain) {
  ASSERT_EQ(Compare({"--bits", "4"}).exit_code, 0);
  const std::string page = Get("compare.txt"), cells = Get("cells.jsonl");
  ASSERT_EQ(Compare({"--bits", "4", "--threads", "1"}).exit_code, 0);
  EXPECT_EQ(Get("compare.txt"), page);
  EXPECT_EQ(Get("cells.jsonl"), cells);
  // Figures that were measured are taken as they stand, those that are damaged or of other windows are not.
  const std::string outliers = Get("outliers.jsonl"), first = outliers.substr(0, outliers.find('\n'));
  Json line = Json::parse(first);
  line.erase("sha256");
  line["figures"]["attn_logits"]["absmax"] = 7;
  PutFile(folder_ / "out" / "outliers.jsonl", CheckedLine(line) + outliers.substr(first.size()));
  ASSERT_EQ(Compare({"--bits", "4"}).exit_code, 0);
  EXPECT_EQ(Get("outliers.jsonl"), CheckedLine(line) + outliers.substr(first.size()));
  std::string damaged = outliers;
  damaged.replace(damaged.find("\"absmax\":") + 9, 1, "7");
  PutFile(folder_ / "out" / "outliers.jsonl", damaged);
  const Outcome again = Compare({"--bits", "4"});
  EXPECT_EQ(again.exit_code, 0);
  EXPECT_THAT(again.err,
              HasSubstr("outliers.jsonl: line 1: does not match its hash; what was there is measured again"));
  EXPECT_EQ(Get("outliers.jsonl"), outliers);
  PutFile(folder_ / "out" / "outliers.jsonl", "notes of mine\n");
  EXPECT_THAT(Compare({"--bits", "4"}).err,
              HasSubstr("outliers.jsonl: line 1: got something else, expected the outliers of a model"));
  PutFile(folder_ / "out" / "outliers.jsonl", outliers);
  const Outcome other = Compare({"--bits", "4", "--limit", "5"});
  ASSERT_EQ(other.exit_code, 0);
  EXPECT_THAT(other.err,
              HasSubstr("outliers.jsonl: line 2 differs in limit and is replaced; use another --out to keep both"));
  EXPECT_NE(Get("outliers.jsonl"), outliers);
}

// The weights' hash does not change with these.
TEST_F(CompareCommandTest, OutliersUnderAnotherConfigurationAreMeasuredAgain) {
  fs::copy(GoldenFolder("llama-mha"), folder_ / "m");
  const auto compare = [&](const char* out) {
    const Outcome outcome =
        CallTare({"compare", folder_ / "m", GoldenFolder("diffllama-mha"), "--bits", "4", "--attribute", "none",
                  "--tasks", "perplexity=" + (folder_ / "ids.safetensors").string(), "--out", folder_ / out});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return GetFile(folder_ / out / "outliers.csv");
  };
  const std::string before = compare("out");
  Json config = Json::parse(GetFile(folder_ / "m" / "config.json"));
  config["rms_norm_eps"] = 0.3;
  PutFile(folder_ / "m" / "config.json", config.dump());
  const std::string resumed = compare("out");
  EXPECT_NE(resumed, before);
  EXPECT_EQ(resumed, compare("fresh"));
}

TEST_F(CompareCommandTest, WholePlansAreCompared) {
  const Outcome outcome = Compare({"--plan", "q=int4/token,k=int8/token", "--plan", "v=int4/token"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char* part : {"  unquantized ", "  q=int4/token,k=int8/token ", "  v=int4/token "})
    EXPECT_THAT(outcome.out, HasSubstr(part));
  EXPECT_THAT(Compare({"--plan", "v=int4/token", "--plan", " v=int4/token"}).err,
              HasSubstr("--plan: got v=int4/token twice"));
}

// Rows are named as recipes are; files have the rules.
TEST_F(CompareCommandTest, RecipesAreCompared) {
  const Outcome outcome = Compare({"--plans", "fa3-fp8, sage2,v[l0,l1]=int4/token"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char* part : {"  unquantized ", "  fa3-fp8 ^ ", "  sage2 ^ ", "  v[l0-1]=int4/token "})
    EXPECT_THAT(outcome.out, HasSubstr(part));
  EXPECT_THAT(Get("table.csv"), HasSubstr("q=fp8e4m3/head,k=fp8e4m3/head,v=fp8e4m3/head,probs=fp8e4m3/row+top256"));
  EXPECT_EQ(Compare({"--plans", "sage2", "--plan", "int8"}).exit_code, 2);
  EXPECT_THAT(Compare({"--plans", "fa3-fp9"}).err, HasSubstr("the nearest is fa3-fp8"));
  EXPECT_THAT(Compare({"--plans", "f32,,sage2"}).err, HasSubstr("--plans: got 'f32,,sage2', expected a plan between"));
}

// Comparisons of other seeds: the spread over pairs, and their own weights are no other seed.
TEST_F(CompareCommandTest, SeveralPairs) {
  ASSERT_EQ(Compare({"--bits", "4", "--attribute", "none"}).exit_code, 0);
  fs::rename(folder_ / "out", folder_ / "seed1");
  EXPECT_THAT(Compare({"--bits", "4", "--attribute", "none", "--also", folder_ / "seed1"}).err,
              HasSubstr("seed1: got the weights of llama-mha as in "));
  std::string json = GetFile(folder_ / "seed1" / "compare.json");
  for (const char* model : {"llama-mha", "diffllama-mha"}) {
    const std::string name = std::string("\"model\": \"") + model + "\",\n          \"weights\": \"";
    for (size_t at = json.find(name); at != json.npos; at = json.find(name, at + 1)) json[at + name.size()] = 'x';
  }
  PutFile(folder_ / "seed1" / "compare.json", json);
  const Outcome outcome = Compare({"--bits", "4", "--attribute", "none", "--also", folder_ / "seed1"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("over 2 pairs: the difference of their changes\n"));
  const Json spread = Json::parse(Get("compare.json")).at("pairs").at(0);
  EXPECT_EQ(spread.at("pairs"), 2);
  EXPECT_EQ(spread.at("differences").at(0), spread["differences"].at(1));
  EXPECT_EQ(spread.at("deviation"), 0.0);
  EXPECT_THAT(Get("pairs.csv"), StartsWith("task,plan,preset,figure,pairs,mean,deviation,low,high,differences\n"));
  EXPECT_THAT(Compare({"--bits", "4", "--also", folder_ / "gone"}).err, HasSubstr("gone: got no compare.json"));
}

TEST_F(CompareCommandTest, WrongUsage) {
  const std::string task = "perplexity=" + (folder_ / "ids.safetensors").string();
  EXPECT_EQ(CallTare({"compare", GoldenFolder("llama-mha"), "--tasks", task, "--out", folder_ / "x"}).exit_code, 2);
  EXPECT_EQ(Compare({"--plan", "v=int4/token", "--bits", "4"}).exit_code, 2);
  PutFile(folder_ / "items.jsonl", R"({"ctx": "a", "endings": ["b", "c"], "label": 0})");
  const Outcome textless = Compare({"--tasks", "choice=" + (folder_ / "items.jsonl").string()});
  EXPECT_EQ(textless.exit_code, 2);
  EXPECT_THAT(textless.err, HasSubstr("--tasks: got no text, expected one to measure outliers on"));
  EXPECT_FALSE(fs::exists(folder_ / "out"));
}

}  // namespace
}  // namespace tare::compare_test
