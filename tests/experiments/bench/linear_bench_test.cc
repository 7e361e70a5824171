// SPDX-License-Identifier: Apache-2.0
// The bench runs and checks itself. No result here depends on timing.
// In the released build alone: under sanitizers a bench takes minutes to measure the sanitizer.
#include "experiments/bench/linear_bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "quant/base/message.h"
#include "tests/support/call.h"

namespace tare::linear_bench_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

LinearCase Small(const std::string& plan) { return {.plan = plan, .rows = 33, .out = 70, .in = 128, .repetitions = 1}; }

TEST(LinearBench, CasesBecomeJson) {
  const LinearBench bench = BenchLinear({Small("weights=int8/channel,linear_in=int8/token")});
  const auto json = LinearBenchJson(bench, "a CPU");
  EXPECT_EQ(json["schema"], "tare.bench/1");
  EXPECT_EQ(json["machine"]["cpu"], "a CPU");
  ASSERT_EQ(json["cases"].size(), 1u);
  EXPECT_LT(json["cases"][0]["rel_l2"].get<double>(), 0.02);
  EXPECT_NEAR(json["cases"][0]["bits_per_weight"].get<double>(), 8 * 128.0 / 70 + 32 * 128.0 / 70 / 128, 0.01);
}

TEST(PreparedLinear, EveryFormatAgreesWithTheReference) {
  for (const char* plan : {"weights=int8/channel,linear_in=int8/token", "weights=int6/group64,linear_in=int6/token",
                           "weights=int4/group32,linear_in=int8/token", "weights=int4/tensor,linear_in=int4/token",
                           "weights=int8/channel,linear_in=mxfp4", "weights=nvfp4,linear_in=nvfp4",
                           "weights=int4/group32+min,linear_in=mxint8:rceil"}) {
    PreparedLinear prepared(Small(plan));
    EXPECT_NO_THROW(prepared.Verify()) << plan;
    EXPECT_GT(prepared.rel_l2(), 0) << plan;
  }
}

TEST(PreparedLinear, PlansThatNoKernelExecutesAreRefused) {
  const auto refused = [](const std::string& plan, const std::string& part) {
    EXPECT_THAT(Call([&] { PreparedLinear prepared(Small(plan)); }), ThrowsMessage<Error>(HasSubstr(part))) << plan;
  };
  refused("linear_in=int8/token", "expected weights in integers");
  refused("attn_logits=f32", "quantizes no weights");
  refused("weights=int8/channel,linear_in=int8/group64", "linear_in=int8/token");
  refused("weights=int8/channel", "33 rows");
  refused("weights=int8/channel,linear_in=fp8e4m3/token", "33 rows");
  refused("weights=int8/group48,linear_in=int8/token", "group48");
}

}  // namespace

}  // namespace tare::linear_bench_test
