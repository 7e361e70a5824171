// SPDX-License-Identifier: Apache-2.0
// The bench measures what it claims: errors of known results, least operations, the schema, and refusals before the
// first timing.
// In the released build alone: under sanitizers a bench takes minutes to measure the sanitizer.
#include "experiments/bench/attention_bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "kernels/product/tile_product.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "tests/support/call.h"

namespace tare::attention_bench_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

const std::string kPlan = "q=int8/token,k=int8/token,difference=int8/block64,v=int8/block64.channel";

AttentionCase Small(const std::string& kernel, const std::string& family) {
  return {.kernel = kernel,
          .family = family,
          .plan = kernel == "tare" ? kPlan : "",
          .n = 96,
          .d = 16,
          .heads = 2,
          .repetitions = 2};
}

TEST(BenchAttention, MeasuresEveryKernel) {
  const AttentionBench bench =
      BenchAttention({Small("tare", "v1"), Small("tare-f32", "v2"), Small("onednn-f32", "standard"),
                      Small("onednn-graph", "v1"), Small("tare-bf16", "v1")});
  ASSERT_EQ(bench.results.size(), 5u);
  for (const AttentionResult& r : bench.results) {
    EXPECT_GT(r.seconds, 0);
    const bool has_roofline = r.measured.kernel != "tare-bf16" || UkernelServes(ProductTypes::kBf16);
    EXPECT_EQ(r.roofline_fraction > 0, has_roofline && r.roof_moved <= RoofAround::kSteadyRoof) << r.measured.kernel;
    EXPECT_FALSE(r.roofline_fraction >= 1);
    EXPECT_LT(r.rel_l2, 0.05);
    EXPECT_GE(r.max_row_rel_l2, r.rel_l2);
  }
  EXPECT_GT(bench.results[0].rel_l2, 1e-3);
  EXPECT_GT(bench.results[0].floor_rel_l2, 1e-3);
  EXPECT_EQ(bench.results[1].floor_rel_l2, 0);
  EXPECT_LT(bench.results[1].rel_l2, 1e-5);
  EXPECT_GT(bench.results[4].rel_l2, 1e-4);
  const nlohmann::json json = AttentionBenchJson(bench, "a CPU");
  EXPECT_EQ(json["schema"], "tare.bench/1");
  EXPECT_EQ(json["machine"]["cpu"], "a CPU");
  EXPECT_GT(json["roofline"]["u8s8_gops"], 0);
  EXPECT_EQ(json["cases"].size(), 5u);
  EXPECT_EQ(json["cases"][0]["order"], "early");
  EXPECT_EQ(json["cases"][0]["plan"], kPlan);
  EXPECT_EQ(json["cases"][0]["name"], "int8 early");
  EXPECT_EQ(json["findings"].size(), 1u);               // of v1, the one shape with both
  EXPECT_TRUE(json["cases"][1]["x_onednn"].is_null());  // no kernel of oneDNN's for v2
  SetThreads(0);
}

// A recipe has its own name; its values' scale per head is that of the floor, too.
TEST(BenchAttention, ARecipeOfTheLiterature) {
  for (const char* family : {"standard", "v1", "v2"}) {
    AttentionCase c = Small("tare", family);
    c.plan = "int-flash", c.repetitions = 1;
    const AttentionBench bench = BenchAttention({c});
    const AttentionResult& r = bench.results.front();
    EXPECT_EQ(r.name, "int-flash");
    EXPECT_EQ(r.order, "late");
    EXPECT_GT(r.floor_rel_l2, 1e-3);
    EXPECT_LT(r.floor_rel_l2, r.rel_l2);
    EXPECT_LT(r.rel_l2, 0.05) << family;
  }
  SetThreads(0);
}

// oneDNN's kernels for a shape are compared with the rows of that shape alone; what its plans have in common is named
// apart; int8 is offered only where its sums are right.
TEST(BenchAttention, BaselinesOfAShape) {
  AttentionCase c = Small("tare", "v2");
  c.repetitions = 1;
  std::vector<AttentionCase> cases{c};
  c.plan = "q=int8/token,k=int8/token,difference=int8/block128,v=int8/block128.channel";
  cases.push_back(c);
  c.plan = "q=int6/token,k=int6/token,probs=u8/block128,v=int8/block128.channel,attn_logits=int4/row";
  cases.push_back(c);
  AddBaselines(c, cases);
  const AttentionBench bench = BenchAttention(cases);
  std::vector<std::string> names;
  double fastest = INFINITY;
  for (const AttentionResult& r : bench.results) {
    names.push_back(r.name);
    if (r.name.starts_with("oneDNN")) fastest = std::min(fastest, r.seconds);
  }
  for (const AttentionResult& r : bench.results) EXPECT_DOUBLE_EQ(r.x_onednn, fastest / r.seconds) << r.name;
  std::vector<std::string> expected{"int8 early", "int8 early 2", "int6/int8, logits int4 late"};
  if (UkernelServes(ProductTypes::kBf16)) expected.push_back("bf16");
  for (const char* name : {"f32", "oneDNN f32", "oneDNN Graph f32"}) expected.push_back(name);
  if (UkernelServes(ProductTypes::kU8S8))
    for (const char* name : {"oneDNN int8", "oneDNN Graph int8"}) expected.push_back(name);
  EXPECT_EQ(names, expected);
  EXPECT_THAT(AttentionFindings(bench),
              testing::ElementsAre(testing::ContainsRegex(
                  "^v2, 96 queries, 1 thread, gaussian: the fastest integer kernel, int.*, takes [0-9.]+ ns per pair, "
                  "[0-9.]+ times as fast as the fastest of oneDNN, with an error of [0-9.]+ %\\.$")));
  cases.clear();
  c.n = c.keys = 8193;
  AddBaselines(c, cases);
  for (const AttentionCase& other : cases) EXPECT_TRUE(other.kernel.starts_with("tare-")) << other.kernel;
  SetThreads(0);
}

// INT4 against INT8 of the same shape and order, by more than calls spread.
TEST(BenchAttention, SaysWhetherFourBitsAreFaster) {
  AttentionBench bench{.isa = "", .roofline = {}, .results = {}};
  for (const char* name : {"int8 early", "int4 early", "int8 late"}) {
    AttentionResult& r = bench.results.emplace_back();
    r.measured = Small("tare", "v1"), r.name = name, r.seconds = 1, r.spread = 0.05, r.ns_per_pair = 1.7;
  }
  EXPECT_THAT(
      AttentionFindings(bench),
      testing::ElementsAre(testing::AllOf(
          testing::StartsWith("v1, 96 queries, 1 thread, gaussian: INT4 maps take 1.70 ns per pair and INT8 maps "
                              "1.70: no faster beyond the spread, as their codes take a byte each"),
          testing::EndsWith("decoding, where reading counts, is timed by `tare bench decode`."))));
  bench.results[0].seconds = 1.06;
  EXPECT_THAT(AttentionFindings(bench), testing::ElementsAre(testing::EndsWith(": 1.06 times as fast.")));
  bench.results[1].measured.n = 7;
  EXPECT_TRUE(AttentionFindings(bench).empty());
}

TEST(BenchAttention, GroupedHeadsOverMoreKeysThanQueries) {
  std::vector<AttentionCase> cases{Small("tare", "v1"), Small("tare-f32", "v2"), Small("onednn-f32", "v1")};
  for (AttentionCase& c : cases) c.heads = 4, c.kv_heads = 2, c.keys = 200, c.repetitions = 1;
  const AttentionBench bench = BenchAttention(cases);
  for (const AttentionResult& r : bench.results) EXPECT_LT(r.rel_l2, 0.05) << r.measured.kernel;
  const nlohmann::json json = AttentionBenchJson(bench, "a CPU");
  EXPECT_EQ(json["cases"][0]["keys"], 200);
  EXPECT_EQ(json["cases"][0]["kv_heads"], 2);
  SetThreads(0);
}

TEST(BenchAttention, RefusesBeforeItMeasures) {
  const auto message = [](auto change, const char* text) {
    AttentionCase c = Small("tare", "v1");
    change(c);
    EXPECT_THAT(Call([&] { BenchAttention({Small("tare-f32", "v1"), c}); }), ThrowsMessage<Error>(HasSubstr(text)));
  };
  message([](AttentionCase& c) { c.family = "v3"; }, "family: got 'v3'");
  message([](AttentionCase& c) { c.kernel = "fast"; }, "kernel: got 'fast', expected tare,");
  message([](AttentionCase& c) { c.mask = "some"; }, "mask: got 'some'");
  message([](AttentionCase& c) { c.threads = 0; }, "0 threads");
  message([](AttentionCase& c) { c.n = 0; }, "n 0");
  message([](AttentionCase& c) { c.family = "standard"; }, "one map");
  message([](AttentionCase& c) { c.kv_heads = 3; }, "3 key/value heads");
  message([](AttentionCase& c) { c.plan = "q=int8/token"; }, "k in f32 in layer 0");
  SetThreads(0);
}

}  // namespace
}  // namespace tare::attention_bench_test
