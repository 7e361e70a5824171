// SPDX-License-Identifier: Apache-2.0
// tare bench attention as a user runs it. No result here depends on timing.
// In the released build alone: under sanitizers a bench takes minutes to measure the sanitizer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include <nlohmann/json.hpp>

#include "tests/support/arrays.h"
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
  const Outcome recipe = CallTare(
      {"bench", "attention", "--plan", "int-flash", "--n", "64", "--d", "16", "--heads", "1", "--repetitions", "1"});
  EXPECT_THAT(recipe.out, testing::HasSubstr("\nint-flash: q=int8/token,k=int8/token,v=int8/head,probs=u8/row+"));
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

// Every layer of a file, its first sequence; oneDNN's kernels, which subtract one lambda, where there is one.
TEST(BenchAttentionCommand, CapturedTensors) {
  const TemporaryFolder folder;
  const std::string file = folder / "c.safetensors", axes = folder / "axes.json";
  std::map<std::string, TestArray> arrays;
  for (const char* layer : {".0", ".2"}) {
    arrays[std::string("q") + layer] = SomeArray({2, 4, 40, 16}, 0.3f);
    arrays[std::string("k") + layer] = SomeArray({2, 4, 40, 16}, 0.3f);
    arrays[std::string("v") + layer] = SomeArray({2, 2, 40, 32});
  }
  PutArrays(file, arrays);
  PutFile(axes, R"({"attention": {"heads": "v1", "lambda": 0.25}})");
  const auto bench = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"bench", "attention", "--data", file, "--repetitions", "1"});
    return CallTare(more);
  };
  const std::string plan = "q=int8/token,k=int8/token,difference=int8/block64,v=int8/block64.channel";
  const Outcome outcome = bench({"--axes", axes, "--plan", plan, "--json", "-"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto cases = nlohmann::json::parse(outcome.out)["cases"];
  std::vector<std::string> kernels;
  for (const auto& one : cases) {
    kernels.push_back(one["kernel"]);
    EXPECT_EQ(one["n"], 40);
    EXPECT_EQ(one["heads"], 2);
    EXPECT_EQ(one["kv_heads"], 2);
    EXPECT_EQ(one["family"], "v1");
    EXPECT_EQ(one["lambda"], 0.25);
    EXPECT_LT(one["rel_l2"].get<double>(), one["kernel"] == "tare" ? 0.2 : 0.1);
  }
  EXPECT_EQ(cases.front()["data"], file + ": layer 0");
  EXPECT_EQ(cases.back()["data"], file + ": layer 2");
  EXPECT_THAT(kernels, testing::IsSupersetOf({"tare", "tare-f32", "onednn-f32", "onednn-graph"}));
  std::erase_if(arrays, [](const auto& array) { return array.first.ends_with(".2"); });
  arrays["lambda.0"] = SomeArray({2, 2, 40, 1}, 0.1f);
  PutArrays(file, arrays);
  PutFile(axes, R"({"attention": {"heads": "v1"}})");
  EXPECT_THAT(
      bench({"--axes", axes, "--plan", plan, "--n", "20"}).out,
      testing::AllOf(testing::HasSubstr("\nv1, n 20, S 20, d 16, H 2, kv 2, th 1, causal, " + file + ": layer 0\n"),
                     testing::HasSubstr("\n  f32 "), testing::Not(testing::HasSubstr("\n  oneDNN"))));
  EXPECT_THAT(bench({"--axes", axes, "--n", "41"}).err,
              testing::HasSubstr("--n: got 41, expected at most the 40 tokens of " + file + ": layer 0"));
  EXPECT_THAT(bench({}).err, testing::HasSubstr("layer 0: heads 'standard': got 4 heads of k and 2 of v, expected"));
  EXPECT_THAT(bench({"--d", "64"}).err, testing::HasSubstr("--d: has no effect without data that are made"));
  const Outcome flat = CallTare({"bench", "attention", "--data", "flat"});
  EXPECT_EQ(flat.exit_code, 2);
  EXPECT_THAT(flat.err, testing::HasSubstr("--data: got 'flat', expected gaussian, sink, vbias, diffuse, or a file"));
  EXPECT_THAT(CallTare({"bench", "attention", "--axes", axes}).err, testing::HasSubstr("--axes: has no effect"));
}

TEST(BenchAttentionCommand, PlansWithoutAKernelAreRefused) {
  const Outcome outcome = Bench("q=int8/token");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, testing::HasSubstr("got k in f32"));
}

}  // namespace
}  // namespace tare::bench_attention_test
