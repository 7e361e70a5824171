// SPDX-License-Identifier: Apache-2.0
// The bench measures what it claims and refuses before the first timing. No result here depends on timing.
// In the released build alone: under sanitizers a bench takes minutes to measure the sanitizer.
#include "experiments/bench/decode_bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "kernels/product/read_ahead.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "tests/support/call.h"

namespace tare::decode_bench_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

const CachePlan kInt4 = ParseCachePlan("cache_k=int4/token,cache_v=int4/token");

DecodeCase Small(const std::string& kernel, const CachePlan& plan) {
  return {.kernel = kernel, .plan = plan, .shape = {.n = 100, .d = 16, .heads = 4, .kv_heads = 2}, .repetitions = 2};
}

TEST(BenchDecode, MeasuresCachesAndBaselines) {
  std::vector<DecodeCase> cases{Small("tare", kInt4), Small("tare", {}), Small("onednn-f32", {}), Small("tare", kInt4)};
  cases[3].shape.batch = 3;
  cases[3].shape.family = "standard";
  const std::vector<DecodeResult> results = BenchDecode(cases);
  for (const DecodeResult& r : results) {
    EXPECT_GT(r.seconds, 0);
    EXPECT_GT(r.bandwidth_fraction, 0);
    EXPECT_NEAR(r.gbps * r.seconds * 1e9, r.bytes, 1);
    EXPECT_NEAR(r.ns_per_key_head * 100 * 4 * r.measured.shape.batch, r.seconds * 1e9, 1e-3 * r.seconds * 1e9);
  }
  EXPECT_GT(results[0].rel_l2, 0.03);  // int4
  EXPECT_LT(results[0].rel_l2, 0.5);
  // 15 bits of q and the difference add next to nothing to what the codes take, 20 %, of two heads.
  EXPECT_NEAR(results[0].floor_rel_l2, results[0].rel_l2, 0.001 * results[0].rel_l2);
  EXPECT_LT(results[1].rel_l2, 1e-5);
  EXPECT_EQ(results[1].floor_rel_l2, 0);
  EXPECT_LT(results[2].rel_l2, 1e-5);
  // Two pages of K1, K2 and V, which is filled up to a panel.
  EXPECT_EQ(results[0].bytes, 2 * 2 * (2 * (64 * 16 / 2 + 256) + 64 * 64 / 2 + 256));
  const nlohmann::json json = DecodeBenchJson(results, "a CPU");
  EXPECT_EQ(json["schema"], "tare.bench/1");
  EXPECT_EQ(json["machine"]["cpu"], "a CPU");
  EXPECT_EQ(json["machine"]["last_cache_bytes"], LastCacheBytes());
  EXPECT_EQ(json["machine"]["read_hint"], Name(BestReadHint()));
  EXPECT_EQ(json["cases"][0]["read_from"], results[0].bytes <= LastCacheBytes() ? "cache" : "memory");
  EXPECT_EQ(json["cases"][0]["plan"], "cache_k=int4/token,cache_v=int4/token");
  EXPECT_EQ(json["cases"][2]["kernel"], "onednn-f32");
  EXPECT_EQ(json["cases"][3]["batch"], 3);
  EXPECT_DOUBLE_EQ(results[0].x_onednn, results[2].seconds / results[0].seconds);
  EXPECT_EQ(json["cases"][0]["x_onednn"], results[0].x_onednn);
  EXPECT_TRUE(json["cases"][3]["x_onednn"].is_null());  // of this shape oneDNN was not measured
  SetThreads(0);
}

// Four bits against eight of the same shape, by more than calls spread.
TEST(BenchDecode, SaysWhetherFourBitsAreFaster) {
  const CachePlan kInt8 = ParseCachePlan("cache_k=int8/token,cache_v=int8/token");
  std::vector<DecodeResult> results{{.measured = Small("tare", kInt4), .seconds = 1, .spread = 0.1, .bytes = 52},
                                    {.measured = Small("tare", kInt8), .seconds = 1.5, .spread = 0.2, .bytes = 100},
                                    {.measured = Small("tare", kInt8), .seconds = 9}};
  results[0].ns_per_key_head = 11.9, results[1].ns_per_key_head = 22.7;
  results[2].measured.shape.n = 7;
  const std::string all =
      "v1, 100 keys, 1 thread: decoding with cache_k=int4/token,cache_v=int4/token takes 11.90 ns per key and head, "
      "and in 8 bits 22.70: ";
  EXPECT_THAT(DecodeFindings(results),
              testing::ElementsAre(all + "1.50 times as fast, as it reads 0.52 of the bytes."));
  results[1].spread = 0.6, results[1].in_last_cache = true;
  EXPECT_THAT(DecodeFindings(results),
              testing::ElementsAre(all + "no faster beyond the spread, though it reads 0.52 of the bytes, which the "
                                         "processor's last cache holds."));
  EXPECT_EQ(DecodeBenchJson(results, "a CPU")["findings"].size(), 1u);
  for (DecodeResult& r : results) r.in_last_cache = true;
  EXPECT_THAT(DecodeFindings(results)[0], testing::StartsWith("Every cache fits the processor's last one ("));
}

TEST(BenchDecode, RefusesBeforeItMeasures) {
  const auto message = [](auto change, const char* text) {
    DecodeCase c = Small("tare", kInt4);
    change(c);
    EXPECT_THAT(Call([&] { BenchDecode({Small("tare", {}), c}); }), ThrowsMessage<Error>(HasSubstr(text)));
  };
  message([](DecodeCase& c) { c.kernel = "fast"; }, "kernel: got 'fast'");
  message([](DecodeCase& c) { c.threads = 0; }, "0 threads");
  message([](DecodeCase& c) { c.shape.family = "v3"; }, "family: got 'v3'");
  message([](DecodeCase& c) { c.shape.n = 0; }, "n 0");
  message([](DecodeCase& c) { c.shape.kv_heads = 3; }, "3 key/value heads");
  message([](DecodeCase& c) { c.kernel = "onednn-f32", c.shape.batch = 2; }, "batch of 2");
  message([](DecodeCase& c) { c.shape.n = int64_t{1} << 40; }, "GB of");
  message([](DecodeCase& c) { c.plan.policy.last = -1; }, "last -1");
}

}  // namespace
}  // namespace tare::decode_bench_test
