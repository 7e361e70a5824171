// SPDX-License-Identifier: Apache-2.0
// In the released build alone: under sanitizers a bench takes minutes to measure the sanitizer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/call_tare.h"

namespace tare::bench_test {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

Outcome Bench(std::vector<std::string> options) {
  std::vector<std::string> command{"bench",   "forward", "--ffn",    "48", "--layers",      "1", "--vocabulary", "32",
                                   "--batch", "1",       "--tokens", "8",  "--repetitions", "1"};
  command.insert(command.end(), options.begin(), options.end());
  return CallTare(command);
}

TEST(BenchTest, ShowsRatesOfEachFamilyAndOfTheMachine) {
  const Outcome outcome = Bench({"--hidden", "32", "--heads", "2", "--json", "-"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const Json json = Json::parse(outcome.out);
  EXPECT_EQ(json.at("schema"), "tare.bench.forward/1");
  ASSERT_EQ(json.at("timings").size(), 4u);
  for (const Json& timing : json["timings"]) {
    EXPECT_GT(timing.at("tokens_per_second").get<double>(), 0);
    EXPECT_GT(timing.at("matmul_gflops").get<double>(), 0);
    EXPECT_NEAR(timing.at("share").get<double>(),
                timing.at("gflops").get<double>() / timing.at("matmul_gflops").get<double>(), 1e-9);
  }
  EXPECT_EQ(json["timings"][2].at("family"), "diffllama");
}

TEST(BenchTest, SeveralPlans) {
  const Outcome outcome =
      Bench({"--hidden", "32", "--heads", "2", "--family", "llama", "--plan", "int8", "--plan", "int4", "--json", "-"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const Json timings = Json::parse(outcome.out).at("timings");
  ASSERT_EQ(timings.size(), 4u);
  EXPECT_EQ(timings[1]["plan"], "");
  for (const size_t i : {2, 3}) {
    EXPECT_EQ(timings[i]["what"], "executed");
    EXPECT_EQ(timings[i]["plan"], i == 2 ? "int8" : "int4");
    EXPECT_GT(timings[i]["seconds"].get<double>(), 0);
  }
}

TEST(BenchTest, AGateNeedsAFamilyThatHasOne) {
  for (const char* gate : {"head", "value"}) {
    const Outcome outcome = Bench({"--hidden", "32", "--heads", "2", "--family", "qwen3", "--gate", gate});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    const Outcome other = Bench({"--hidden", "32", "--heads", "2", "--family", "llama", "--gate", gate});
    EXPECT_EQ(other.exit_code, 2);
    EXPECT_THAT(other.err, HasSubstr("--gate: got family llama, expected one with a gate; try --family qwen3"));
  }
}

TEST(BenchTest, InvalidShapesAreRefused) {
  for (const auto& [options, why] : std::vector<std::pair<std::vector<std::string>, const char*>>{
           {{"--hidden", "33", "--heads", "3"}, "head_dim: got 11"},
           {{"--hidden", "8", "--heads", "16"}, "--hidden: got 8 for 16 heads, expected a multiple; try --hidden 16"},
           {{"--family", "gpt2", "--hidden", "32", "--heads", "2"}, "got 'gpt2', expected llama, diffllama"}}) {
    const Outcome outcome = Bench(options);
    EXPECT_EQ(outcome.exit_code, RefusalCode(outcome.err));
    EXPECT_THAT(outcome.err, HasSubstr(why));
  }
}

}  // namespace
}  // namespace tare::bench_test
