// SPDX-License-Identifier: Apache-2.0
// tare bench attention as a user runs it. No result here depends on timing.
// In the released build alone: under sanitizers a bench takes minutes to measure the sanitizer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
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

// A table a family of the same rows, and each plan once; more threads than processors, grouped heads and more keys than
// queries are obeyed, and the columns explained.
TEST(BenchAttentionCommand, EveryFamilyIsMeasuredAndExplained) {
  const std::string threads = std::to_string(std::thread::hardware_concurrency() + 1);
  const Outcome outcome = CallTare({"bench", "attention", "--n", "64", "--keys", "128", "--d", "16", "--heads", "4",
                                    "--kv-heads", "2", "--threads", threads, "--repetitions", "1"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const std::string family : {"standard", "v1", "v2"}) {
    const std::string early = family == "standard" ? "" : " early";
    EXPECT_THAT(outcome.out, testing::ContainsRegex("\n" + family + ", n 64, S 128, d 16, H 4, kv 2, th " + threads +
                                                    ", causal, gaussian\n.*x oneDNN.*\n  int8" + early + " .*\n  int6" +
                                                    early + " .*\n  int4" + early +
                                                    " .*\n(  bf16 .*\n)?  f32 .*\n  "
                                                    "oneDNN f32 .*\n(  oneDNN int8 .*\n)?\n"));
    EXPECT_THAT(outcome.out, testing::HasSubstr("\n" + family + ", 64 queries, " + threads + " threads, gaussian: "));
  }
  for (const std::string plan : {"int8: q=int8/token,k=int8/token,probs=u8/block256,v=int8/block256.channel\n",
                                 "int4 early: q=int4/token,k=int4/token,difference=int4/block256,"}) {
    EXPECT_THAT(outcome.out, testing::HasSubstr("\n" + plan));
    EXPECT_EQ(outcome.out.find(plan), outcome.out.rfind(plan));
  }
  EXPECT_THAT(outcome.out, testing::Not(testing::HasSubstr("oneDNN Graph f32 ")));
  EXPECT_THAT(outcome.err, testing::HasSubstr("--threads " + threads + ":"));
  const auto unbroken = [](std::string text) {
    std::ranges::replace(text, '\n', ' ');
    return text;
  };
  const std::string help = unbroken(CallTare({"bench", "attention", "--help"}).out);
  for (const char* column : {"spread:", "ns/pair:", "roofline:", "floor:", "worst row:", "x oneDNN:", "moved:"}) {
    EXPECT_THAT(unbroken(outcome.out), testing::HasSubstr(column));
    EXPECT_THAT(help, testing::HasSubstr(column));
  }
}

TEST(BenchAttentionCommand, PlansWithoutAKernelAreRefused) {
  const Outcome outcome = Bench("q=int8/token");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, testing::HasSubstr("got k in f32"));
}

}  // namespace
}  // namespace tare::bench_attention_test
