// SPDX-License-Identifier: Apache-2.0
// tare bench attention as a user runs it. No result here depends on timing.
// In the released build alone: under sanitizers a bench takes minutes to measure the sanitizer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include <nlohmann/json.hpp>

#include "tests/support/call_tare.h"

namespace tare::bench_attention_test {
namespace {

Outcome Bench(const std::string& plan) {
  return CallTare({"bench",  "attention", "--family",      "v1", "--plan",    plan, "--n",    "64",
                   "--d",    "16",        "--heads",       "1",  "--threads", "1",  "--mask", "causal",
                   "--data", "gaussian",  "--repetitions", "1",  "--json",    "-"});
}

TEST(BenchAttentionCommand, OneCaseBesideItsBaselines) {
  const Outcome outcome = Bench("q=int8/token,k=int8/token,difference=int8/block64,v=int8/block64.channel");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["schema"], "tare.bench/1");
  std::vector<std::string> kernels;
  for (const auto& result : json["cases"]) {
    kernels.push_back(result["kernel"]);
    EXPECT_EQ(result["n"], 64);
    EXPECT_GT(result["seconds"].get<double>(), 0);
  }
  EXPECT_THAT(kernels, testing::IsSupersetOf({"tare", "tare-f32", "onednn-f32"}));
}

// More threads than processors, grouped heads and more keys than queries are obeyed, and the columns explained.
TEST(BenchAttentionCommand, RequestedCasesAreMeasuredAndExplained) {
  const std::string threads = std::to_string(std::thread::hardware_concurrency() + 1);
  const Outcome outcome = CallTare({"bench", "attention", "--family", "v2", "--n", "64", "--keys", "128", "--d", "16",
                                    "--heads", "4", "--kv-heads", "2", "--threads", threads, "--repetitions", "1"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              testing::ContainsRegex("\nv2, n 64, S 128, d 16, H 4, kv 2, th " + threads + ", causal, gaussian\n"));
  EXPECT_THAT(outcome.out, testing::Not(testing::HasSubstr("onednn-graph ")));
  EXPECT_THAT(outcome.err, testing::HasSubstr("--threads " + threads + ":"));
  for (const char* column : {"spread:", "ns/pair:", "roofline:", "floor:", "worst row:"}) {
    EXPECT_THAT(outcome.out, testing::HasSubstr(column));
    EXPECT_THAT(CallTare({"bench", "attention", "--help"}).out, testing::HasSubstr(column));
  }
}

TEST(BenchAttentionCommand, PlansWithoutAKernelAreRefused) {
  const Outcome outcome = Bench("q=int8/token");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, testing::HasSubstr("got k in f32"));
}

}  // namespace
}  // namespace tare::bench_attention_test
