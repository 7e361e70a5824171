// SPDX-License-Identifier: Apache-2.0
// tare bench linear as a user runs it. No result here depends on timing.
// In the released build alone: under sanitizers a bench takes minutes to measure the sanitizer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/call_tare.h"

namespace tare::bench_linear_test {
namespace {

TEST(BenchLinearCommand, OneCaseAsJson) {
  const Outcome outcome = CallTare({"bench", "linear", "--plan", "weights=int4/group32,linear_in=int8/token", "--rows",
                                    "20", "--out", "70", "--in", "64", "--repetitions", "1", "--json", "-"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["schema"], "tare.bench/1");
  EXPECT_EQ(json["cases"][0]["rows"], 20);
  EXPECT_GT(json["cases"][0]["f32_seconds"].get<double>(), 0);
}

TEST(BenchLinearCommand, ShapesWithoutAPlanAreWrongUsage) {
  const Outcome outcome = CallTare({"bench", "linear", "--rows", "7"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, testing::HasSubstr("--rows: got no --plan with it, expected both; try --plan weights="));
}

TEST(BenchLinearCommand, PlansWithoutAKernelAreRefused) {
  const Outcome outcome = CallTare({"bench", "linear", "--plan", "weights=int4/group48,linear_in=int8/token"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, testing::HasSubstr("group48"));
}

}  // namespace
}  // namespace tare::bench_linear_test
