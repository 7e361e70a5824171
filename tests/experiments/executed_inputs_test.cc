// SPDX-License-Identifier: Apache-2.0
// Which inputs of linear layers an executed plan leaves to simulation.
#include <gtest/gtest.h>

#include "experiments/plan/resolved_plan.h"
#include "quant/base/message.h"

namespace tare::executed_inputs_test {
namespace {

// Blocks of integers times a step are in codes where an input of integers were, and else simulated.
TEST(ExecutedInputs, BlocksAreInCodesWhereTheirWeightsAre) {
  const SiteKey gate{Site::kGateProjW, 0}, down{Site::kDownProjW, 0};
  const ModelSites model{.family = "llama",
                         .layers = 1,
                         .maps = 1,
                         .tied_head = false,
                         .heads = {},
                         .weights = {{gate, {.in = 96}}, {down, {.in = 96}}}};
  const auto clips = [](const Rule&, const SiteKey&) { return std::vector{3.0f}; };
  const auto coded = [&](const char* text, const SiteKey& weight) {
    const ResolvedPlan plan(Plan::Parse(text), model, Carrying::kExecuted, clips);
    const SiteKey input = InputKeyOf(weight);
    EXPECT_EQ(plan.SimulatedAt(input) == nullptr, plan.CodedAt(input) != nullptr) << text;
    EXPECT_TRUE(plan.CodedAt(input) != nullptr || plan.Simulates(input.site)) << text;
    return plan.CodedAt(input) != nullptr;
  };
  for (const char* format : {"mxfp4", "mxfp4:rceil", "mxfp6e2m3", "mxint8", "nvfp4", "nvfp4:t1", "nvint4", "if4"}) {
    for (const char* weights : {"int8/channel", "int4/group48", "mxfp4", "nvfp4", "int4/group32+zero"})
      EXPECT_TRUE(coded(Formatted("weights={},linear_in={}", weights, format).c_str(), gate)) << weights << format;
  }
  for (const char* plan :
       {"linear_in=mxfp4", "weights=nf4/group32,linear_in=mxfp4", "weights=mxfp8e4m3,linear_in=nvfp4",
        "weights=int4/channel+hadamard,linear_in=mxfp4", "weights=int4/group24,linear_in=mxfp4",
        "weights=int8/channel,linear_in=nf4/group32", "weights=int8/channel,linear_in=mxfp6e3m2",
        "weights=int8/channel,linear_in=mxfp8e4m3", "weights=int8/channel,linear_in=nf4/token",
        "weights=int8/channel,linear_in=fp8e4m3/tensor+static"})
    EXPECT_FALSE(coded(plan, gate)) << plan;
  const char* const mixed = "weights=int8/channel,down_proj.w=f32,linear_in=mxfp4";
  EXPECT_TRUE(coded(mixed, gate));
  EXPECT_FALSE(coded(mixed, down));
  // The LM head, and experts, meet some tokens of several sequences.
  EXPECT_FALSE(coded("lm_head.w=int8/channel,lm_head.in=nvfp4", {Site::kLmHeadW}));
  EXPECT_TRUE(coded("lm_head.w=int8/channel,lm_head.in=mxfp4", {Site::kLmHeadW}));
}

}  // namespace
}  // namespace tare::executed_inputs_test
