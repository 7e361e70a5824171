// SPDX-License-Identifier: Apache-2.0
// tare bench decode as a user runs it. No result here depends on timing.
// In the released build alone: under sanitizers a bench takes minutes to measure the sanitizer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/call_tare.h"

namespace tare::bench_decode_test {
namespace {

Outcome Bench(const std::string& cache, const std::string& json) {
  return CallTare({"bench", "decode", "--family", "v1", "--n", "100", "--d", "16", "--heads", "2", "--threads", "1",
                   "--repetitions", "1", "--cache", cache, "--json", json});
}

TEST(BenchDecodeCommand, OneCacheBesideItsBaselines) {
  const Outcome outcome = Bench("cache_k=int4/token,cache_v=int8/token,last=8", "-");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["schema"], "tare.bench/1");
  EXPECT_EQ(json["bench"], "decode");
  std::vector<std::string> plans;
  for (const auto& result : json["cases"]) {
    plans.push_back(result["kernel"].get<std::string>() + " " + result["plan"].get<std::string>());
    EXPECT_EQ(result["n"], 100);
    EXPECT_EQ(result["d"], 16);
    for (const char* key : {"seconds", "ns_per_key_head", "bandwidth_fraction", "rel_l2"})
      EXPECT_GT(result[key].get<double>(), 0) << key;
  }
  EXPECT_THAT(plans,
              testing::ElementsAre("tare cache_k=int4/token,cache_v=int8/token,last=8", "tare cache_k=f32,cache_v=f32",
                                   "tare cache_k=bf16,cache_v=bf16", "onednn-f32 "));
}

// KIVI's two bits: of 128 tokens a page of codes, scales and minima, and one of f32, which nothing follows.
TEST(BenchDecodeCommand, BytesOfTwoBits) {
  const Outcome outcome =
      CallTare({"bench", "decode", "--family", "v1", "--n", "128", "--d", "16", "--heads", "1", "--threads", "1",
                "--repetitions", "1", "--cache", "cache_k=int2/channel+min,cache_v=int2/token+min", "--json", "-"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto json = nlohmann::json::parse(outcome.out)["cases"][0];
  EXPECT_EQ(json["plan"], "cache_k=int2/channel+min,cache_v=int2/token+min");
  const int keys = 2 * (64 * 16 / 4 + 16 * 8),
            values = 64 * 64 / 4 + 64 * 8;  // a panel of 64 channels, 32 of them used
  EXPECT_EQ(json["bytes"], keys + values + 64 * 4 * (2 * 16 + 64));
}

// As the paper has it, scales and minima of 16 bits for 32 values: three bits a value, of a panel's 64 channels too.
TEST(BenchDecodeCommand, BytesOfBlocksAndGroups) {
  const Outcome outcome = CallTare({"bench", "decode", "--family", "v1", "--n", "128", "--d", "32", "--heads", "1",
                                    "--threads", "1", "--repetitions", "1", "--cache",
                                    "cache_k=int2/block32.channel+min,cache_v=int2/group32+min", "--json", "-"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto json = nlohmann::json::parse(outcome.out)["cases"][0];
  EXPECT_EQ(json["bytes"], 64 * (2 * 32 + 64) * 3 / 8 + 64 * 4 * (2 * 32 + 64));
}

TEST(BenchDecodeCommand, ColumnsAreExplained) {
  const Outcome outcome = Bench("cache_k=int6/token", "");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              testing::ContainsRegex(
                  "v1, n 100, d 16, H 2, kv 2, B 1, th 1\n.*\n  tare .*\n    cache_k=int6/token,cache_v=f32\n"));
  for (const char* column : {"spread:", "ns/key:", "oneDNN:", "of read:", "kernels/decode", "floor:"}) {
    EXPECT_THAT(outcome.out, testing::HasSubstr(column));
    EXPECT_THAT(CallTare({"bench", "decode", "--help"}).out, testing::HasSubstr(column));
  }
}

TEST(BenchDecodeCommand, RulesOfSomeLayersAreRefused) {
  const Outcome outcome = Bench("cache_k=int4/token,cache_k[l0]=f32", "-");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, testing::HasSubstr("bench decode, cache_k[l0]=f32: got a rule for some layers"));
}

TEST(BenchDecodeCommand, UnknownCachesAreRefused) {
  const Outcome outcome = Bench("cache_k=int5/token", "-");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, testing::HasSubstr("got 'int5', expected one of f32 int8 int6 int4 int3 int2 mxfp4"));
}

}  // namespace
}  // namespace tare::bench_decode_test
