// SPDX-License-Identifier: Apache-2.0
// The bench runs and checks itself; no timing decides anything here.
#include "experiments/bench/linear_bench.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tare {
namespace {

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

}  // namespace
}  // namespace tare
