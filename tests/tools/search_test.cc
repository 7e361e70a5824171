// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/call_tare.h"
#include "tests/support/checkpoint.h"
#include "tests/support/golden.h"
#include "tests/support/ids.h"

namespace tare::search_test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

class SearchCommandTest : public testing::Test {
 protected:
  SearchCommandTest() { PutManyIds(folder_ / "ids.safetensors", 6, 20); }

  Outcome Search(const std::string& within, std::vector<std::string> options = {}, const std::string& out = "out") {
    if (std::ranges::find(options, "--plan") == options.end())
      options.insert(options.end(), {"--plan", "q=int8/token,v=int8/token", "--plan", "q=int4/token,v=int4/token"});
    options.insert(options.begin(), {"search", GoldenFolder("diffllama-mha"), "--input", folder_ / "ids.safetensors",
                                     "--within", within, "--out", folder_ / out});
    return CallTare(options);
  }
  std::string Get(const std::string& name) { return GetFile(folder_ / name); }

  TemporaryFolder folder_;
};

TEST_F(SearchCommandTest, TheAnswerIsAMeasuredPlanWithinTheLoss) {
  const Json all = [&] {
    EXPECT_EQ(Search("1000").exit_code, 0);
    return Json::parse(Get("out/search.json"));
  }();
  // All that there is: everything at its fewest bits, known after one run.
  EXPECT_EQ(all.at("plan"), "q=int4/token,v=int4/token");
  EXPECT_EQ(all.at("bits"), 4.0);
  EXPECT_EQ(all.at("verified").size(), 1u);
  EXPECT_THAT(Get("out/search.txt"), HasSubstr(", the cheapest of all:\nq=int4/token,v=int4/token\n"));
  const double most = all["verified"][0]["tasks"][0]["value"];
  const Outcome outcome =
      Search(std::to_string(most / 3), {"--tasks", "perplexity=" + (folder_ / "ids.safetensors").string()});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, StartsWith(Get("out/search.txt")));
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder_ / "out")) names.push_back(entry.path().filename());
  EXPECT_THAT(names, UnorderedElementsAre("cells.jsonl", "search.csv", "search.json", "search.txt"));
  const Json json = Json::parse(Get("out/search.json"));
  const auto loss = [&](const std::string& plan) {
    const Outcome eval = CallTare({"eval", GoldenFolder("diffllama-mha"), "--plan", plan, "--tasks",
                                   "divergence=" + (folder_ / "ids.safetensors").string(), "--json", "-"});
    return Json::parse(eval.out).at("tasks").at("divergence:ids").at("kld").get<double>();
  };
  EXPECT_GT(json.at("bits"), 4.0);
  EXPECT_LT(json.at("bits"), 16.0);
  // The answer loses what eval measures, and the cheaper point that was run loses more than the limit.
  const Json* after = nullptr;
  for (const Json& point : json.at("verified")) {
    ASSERT_EQ(point.at("tasks").size(), 2u);
    if (point.at("plan") == json["plan"]) {
      EXPECT_EQ(point["tasks"][0]["value"], loss(json["plan"]));
    }
    if (point["bits"] < json["bits"] && after == nullptr) after = &point;
  }
  ASSERT_NE(after, nullptr);
  EXPECT_GT((*after)["tasks"][0]["value"], json["within"]);
  EXPECT_THAT(Get("out/search.txt"),
              HasSubstr("\nperplexity          bits  measured                change from unquantized\n"));
}

// A search killed anywhere continues and ends with the same bytes, on any number of threads.
TEST_F(SearchCommandTest, ContinuesAfterAnInterruption) {
  const std::string within = "0.0005";
  ASSERT_EQ(Search(within).exit_code, 0);
  const std::string cells = Get("out/cells.jsonl"), json = Get("out/search.json");
  const auto half = cells.find('\n', cells.size() / 2), last = cells.rfind('\n', cells.size() - 2);
  for (const size_t end : {half + 30, last + 1}) {
    const std::string out = "out" + std::to_string(end);
    fs::create_directory(folder_ / out);
    PutFile(folder_ / out / "cells.jsonl", cells.substr(0, end));
    ASSERT_EQ(Search(within, {"--threads", "1"}, out).exit_code, 0);
    EXPECT_EQ(Get(out + "/cells.jsonl"), cells);
    EXPECT_EQ(Get(out + "/search.json"), json);
    EXPECT_EQ(Get(out + "/search.csv"), Get("out/search.csv"));
  }
}

TEST_F(SearchCommandTest, SensitivityCellsRunOnSeveralMachines) {
  const Outcome list = Search("0.01", {"--list"});
  EXPECT_THAT(list.out,
              StartsWith("0 diffllama-mha f32 divergence:ids\n1 diffllama-mha q[l0]=int8/token divergence:ids\n"));
  const auto count = std::ranges::count(list.out, '\n');
  EXPECT_FALSE(fs::exists(folder_ / "out"));
  ASSERT_EQ(Search("0.0005", {"--cells", "0-2"}, "a").exit_code, 0);
  ASSERT_EQ(Search("0.0005", {"--cells", "3-" + std::to_string(count - 1)}, "b").exit_code, 0);
  EXPECT_EQ(Search("0.0005", {"--merge", folder_ / "a", "--merge", folder_ / "b"}, "ab").exit_code, 0);
  EXPECT_EQ(Search("0.0005").exit_code, 0);
  EXPECT_EQ(Get("ab/cells.jsonl"), Get("out/cells.jsonl"));
  EXPECT_EQ(Get("ab/search.json"), Get("out/search.json"));
}

// Within a size, the answer fits, its file has the size that it says, and it loses no more than one level for all.
TEST_F(SearchCommandTest, TheLeastLossWithinASize) {
  const std::string model = GoldenFolder("diffllama-mha"), ids = folder_ / "ids.safetensors";
  const auto search = [&](const std::string& out, const std::string& option, const std::string& limit,
                          std::vector<std::string> more = {}) {
    std::vector<std::string> words{"search",        model,     "--input", ids,      "--out",
                                   folder_ / out,   option,    limit,     "--bits", "8,4,2",
                                   "--granularity", "group16", "--site",  "weights"};
    words.insert(words.end(), more.begin(), more.end());
    return CallTare(words);
  };
  const Outcome outcome = search("size", "--bits-per-weight", "7", {"--out-model", folder_ / "q.h5"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const Json json = Json::parse(Get("size/search.json"));
  EXPECT_TRUE(json.at("within").is_null());
  EXPECT_LE(json.at("bits"), 7.0);
  EXPECT_GT(json.at("bits"), 6.0);  // one level for all: 4 bits and a scale of 32 for 16 weights
  ASSERT_EQ(json.at("verified").size(), 2u);
  const Json &uniform = json["verified"][0], &choice = json["verified"][1];
  EXPECT_NEAR(uniform.at("bits").get<double>(), 6.1, 0.02);  // rows of 112 are packed as 128
  EXPECT_EQ(uniform.at("plan"), "weights=int4/group16");
  const auto loss = [](const Json& point) { return point.at("tasks")[0].at("change").at("value").get<double>(); };
  EXPECT_EQ(json.at("plan"), (loss(choice) < loss(uniform) ? choice : uniform).at("plan"));
  EXPECT_LT(choice.at("predicted"), uniform.at("predicted"));
  EXPECT_THAT(Get("size/search.txt"), HasSubstr("the least loss within 7.000 bits per weight\n"));
  const Json file = Json::parse(
      CallTare({"quantize", model, "--plan", json["plan"], "--out", folder_ / "same.h5", "--json", "-"}).out);
  EXPECT_EQ(GetFile(folder_ / "same.h5"), GetFile(folder_ / "q.h5"));
  EXPECT_EQ(file.at("bytes_after"), json.at("budget").at("bytes"));

  // A budget of the same size in bytes gives the same search.
  const std::string bytes = std::to_string(json["budget"]["bytes"].get<int64_t>());
  ASSERT_EQ(search("bytes", "--bytes", bytes).exit_code, 0);
  EXPECT_EQ(Json::parse(Get("bytes/search.json")).at("plan"), json["plan"]);

  // Without further options: weights, with one scale per output channel.
  const Outcome usual =
      CallTare({"search", model, "--input", ids, "--bits-per-weight", "5", "--out", folder_ / "usual"});
  ASSERT_EQ(usual.exit_code, 0) << usual.err;
  EXPECT_THAT(Json::parse(Get("usual/search.json")).at("plan").get<std::string>(), HasSubstr("/channel"));
}

TEST_F(SearchCommandTest, SizesAreRefusedBeforeAnythingRuns) {
  const auto refused = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"search", GoldenFolder("diffllama-mha"), "--input", folder_ / "ids.safetensors",
                                 "--out", folder_ / "none"});
    const Outcome outcome = CallTare(words);
    EXPECT_NE(outcome.exit_code, 0);
    EXPECT_FALSE(fs::exists(folder_ / "none")) << outcome.err;
    return outcome.err;
  };
  EXPECT_THAT(refused({}), HasSubstr("got 0 of --within, --bits-per-weight and --bytes, expected one"));
  EXPECT_THAT(refused({"--within", "1", "--bytes", "1G"}), HasSubstr("got 2 of --within"));
  for (const char* size : {"", "G", "1X", "-1", "0", "1GB", "nan", "1e999"})
    EXPECT_THAT(refused({"--bytes", size}), HasSubstr("--bytes: got '")) << size;
  EXPECT_THAT(refused({"--bits-per-weight", "0"}),
              HasSubstr("--bits-per-weight: got 0, expected bits above 0 and up to 64"));
  EXPECT_THAT(refused({"--bits-per-weight", "nan"}), HasSubstr("--bits-per-weight"));
  EXPECT_THAT(refused({"--bits-per-weight", "1", "--granularity", "group16"}),
              HasSubstr("got room for 1.000 bits per weight, expected at least"));
  EXPECT_THAT(refused({"--bits-per-weight", "40", "--granularity", "group16"}), HasSubstr("expected less than the"));
  EXPECT_THAT(refused({"--bytes", "1K", "--granularity", "group16"}), HasSubstr("got room for 0.000 bits per weight"));
  EXPECT_THAT(refused({"--bits-per-weight", "4", "--site", "q", "--granularity", "token", "--bits", "8,4"}),
              HasSubstr("got a site without stored bytes, expected weights within a size"));
  EXPECT_THAT(refused({"--within", "1", "--out-model", folder_ / "m.h5"}), HasSubstr("--out-model"));
}

TEST_F(SearchCommandTest, Refused) {
  EXPECT_THAT(Search("0").err, HasSubstr("--within: got 0, expected nats per token above 0"));
  EXPECT_THAT(Search("1e-12").err, HasSubstr("--within: got 1e-12, expected a loss that some plan meets"));
  EXPECT_THAT(Search("1", {"--plan", "f32"}, "f32").err, HasSubstr("--plan: got none that quantizes"));
  EXPECT_THAT(Search("1", {"--plan", "q[m1]=int8/token,k=int4/token"}, "m1").err,
              HasSubstr("got heads, maps or experts"));
  EXPECT_THAT(Search("1", {"--plan", "int8", "--bits", "8"}).err, HasSubstr("--bits"));
  const Outcome bits = CallTare({"search", GoldenFolder("diffllama-mha"), "--input", folder_ / "ids.safetensors",
                                 "--within", "1", "--out", folder_ / "bits", "--bits", "8,5"});
  EXPECT_THAT(bits.err, HasSubstr("5"));
  EXPECT_EQ(bits.exit_code, 2);
  EXPECT_FALSE(fs::exists(folder_ / "bits"));
  EXPECT_EQ(CallTare({"search", GoldenFolder("diffllama-mha"), "--within", "1"}).exit_code, 2);
}

TEST(SearchHelp, Fits80Columns) {
  std::istringstream help(CallTare({"search", "--help"}).out);
  for (std::string line; std::getline(help, line);) EXPECT_LE(line.size(), 80u) << line;
}

}  // namespace
}  // namespace tare::search_test
