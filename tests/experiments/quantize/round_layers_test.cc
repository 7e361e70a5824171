// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/round_layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/error.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/golden.h"

namespace tare {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

int64_t Check(const char* plan, const char* method = "rtn") {
  const auto model = GoldenFolder("llama-gqa");
  return CheckRounding({.model = model, .plan = Plan::Parse(plan), .out = {}, .method = QuantizeMethod::Parse(method)},
                       Checkpoint(model), LoadConfig(model));
}

TEST(RoundLayers, MatricesThatThePlanRoundsAreCounted) {
  const int layers = LoadConfig(GoldenFolder("llama-gqa")).layers;
  EXPECT_EQ(Check("down_proj.w=int8/channel"), layers);
  EXPECT_EQ(Check("q_proj.w[l0]=int8/channel,o_proj.w=int4/group16"), layers + 1);
}

TEST(RoundLayers, WhatCannotBeRoundedIsRefusedByItsRule) {
  const auto refuses = [](const char* plan, const char* method, const char* why) {
    EXPECT_THAT([&] { Check(plan, method); }, ThrowsMessage<Error>(HasSubstr(why))) << plan;
  };
  refuses("down_proj.w=int8/group48", "rtn", "group48");
  refuses("down_proj.w=int8/tensor", "gptq", "try channel");
  refuses("linear_in=int8/token", "rtn", "got no rule for weights");
}

// Twice as many bits: an eighth of the error and less.
TEST(RoundLayers, TheSummaryIsOfTheMatricesThatWereRounded) {
  const TemporaryFolder folder;
  const auto round = [&](const char* plan) {
    int64_t done = 0;
    const QuantizeJob job{.model = GoldenFolder("llama-gqa"), .plan = Plan::Parse(plan), .out = folder / "q.h5"};
    const QuantizeSummary summary =
        RoundLayers(job, job.model, nullptr, [&](int64_t now, int64_t, const char*) { done = now; });
    EXPECT_GT(done, 0);
    EXPECT_EQ(QuantizedCheckpoint(job.out).provenance().plan, job.plan.canonical());
    EXPECT_EQ(std::ssize(QuantizedCheckpoint(job.out).matrices()), summary.matrices);
    return summary;
  };
  const QuantizeSummary few = round("down_proj.w=int4/channel"), many = round("down_proj.w=int8/channel");
  EXPECT_EQ(few.matrices, Check("down_proj.w=int4/channel"));
  EXPECT_EQ(few.values, many.values);
  EXPECT_LT(many.relative_error, few.relative_error / 8);
  EXPECT_GT(many.relative_error, 0);
  EXPECT_LT(few.bytes_after, many.bytes_after);
  EXPECT_LT(many.bytes_after, many.bytes_before);
}

}  // namespace
}  // namespace tare
