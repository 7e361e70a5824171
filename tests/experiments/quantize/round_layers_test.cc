// SPDX-License-Identifier: Apache-2.0
// In the released build alone: it quantizes whole models again and again, ten times as long under sanitizers.
#include "experiments/quantize/round_layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "experiments/model/config/read_config.h"
#include "experiments/model/linear/fused_tensors.h"
#include "experiments/model/model.h"
#include "experiments/model/sites_of_model.h"
#include "experiments/quantize/steps/table.h"
#include "quant/base/formatted.h"
#include "quant/plan/site.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/calibrated_job.h"
#include "tests/support/golden.h"
#include "tests/support/logits.h"
#include "tests/support/ranged_integers.h"

namespace tare::round_layers_test {
namespace {

// Twice as many bits: an eighth of the error and less.
TEST(RoundLayers, TheSummaryIsOfTheMatricesThatWereRounded) {
  const TemporaryFolder folder;
  const auto round = [&](const char* plan) {
    int64_t done = 0;
    const QuantizeJob job{.model = GoldenFolder("llama-gqa"), .plan = Plan::Parse(plan), .out = folder / "q.h5"};
    const ModelConfig config = LoadConfig(job.model);
    const ModelFiles files{job.model, config, OpenSplit(job.model, config)};
    const QuantizeSummary summary =
        RoundLayers(job, files, {}, nullptr, [&](int64_t now, int64_t, const char*) { done = now; });
    EXPECT_GT(done, 0);
    EXPECT_EQ(QuantizedCheckpoint(job.out).provenance().plan, job.plan.canonical());
    EXPECT_EQ(std::ssize(QuantizedCheckpoint(job.out).matrices()), summary.matrices);
    return summary;
  };
  const QuantizeSummary few = round("down_proj.w=int4/channel"), many = round("down_proj.w=int8/channel");
  EXPECT_EQ(few.matrices, LoadConfig(GoldenFolder("llama-gqa")).layers);
  EXPECT_EQ(few.values, many.values);
  EXPECT_LT(many.relative_error, few.relative_error / 8);
  EXPECT_GT(many.relative_error, 0);
  EXPECT_LT(few.bytes_after, many.bytes_after);
  EXPECT_LT(many.bytes_after, many.bytes_before);
}

// Of every format that weights have: the file and the simulated plan are one model. Rows of 112 end in half a block.
TEST(RoundLayers, AFileIsTheSimulatedPlanBitForBit) {
  const TemporaryFolder folder;
  const TokenBatch batch = GoldenBatch("diffllama-mha");
  const auto same = [&](const std::string& plan) {
    Quantize({GoldenFolder("diffllama-mha"), Plan::Parse(plan), folder / "q.h5"}, {});
    Model simulated(GoldenFolder("diffllama-mha")), file(folder / "q.h5");
    simulated.CarryOut({.plan = {Plan::Parse(plan), ModelSitesOf(simulated), Carrying::kSimulated}});
    file.CarryOut({.plan = {Plan::Parse(plan), ModelSitesOf(file), Carrying::kSimulated}});
    const std::vector<float> expected = LogitsOf(simulated, batch), got = LogitsOf(file, batch);
    EXPECT_EQ(std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)), 0) << plan;
  };
  for (const Format& format : SpelledFormats()) {
    const bool two_words = std::ranges::count(Name(format), ':') > 1;
    if (format == Format::kF32 || two_words || !ClassOf(Site::kQProjW).Takes(format)) continue;
    same(Formatted("weights={}{},lm_head.w=int8/channel", Name(format), Info(format).block > 0 ? "" : "/group16"));
  }
  for (const Format& format : RangedIntegers()) {
    const std::string rule = TextOf(format, {Granularity::Kind::kGroup, 16});
    same(Formatted("weights={},lm_head.w={}+mse", rule, TextOf(format, {Granularity::Kind::kChannel})));
  }
  same("weights=int6/tensor+zero,down_proj.w=int4/tensor+min,up_proj.w=int8/tensor+full");
  same("weights=ternary/tensor");
  same("weights=grid(-1 -0.3 0.2 1)/group16,down_proj.w=grid(-7 -5 -3 -2 -1 0 1 2 3 4 5 6 7 8 9 10 11)/tensor");
  same("weights=nf4/group8+mse,down_proj.w=fp8e4m3/tensor");
  same("weights=e8p/group16+mse,down_proj.w=e8p/tensor");
}

// Rows of 112 end in half a block.
TEST(RoundLayers, CalibratedMethodsKnowFormatsThatAreNotIntegers) {
  const TemporaryFolder folder;
  WriteCalibrationIds(folder / "ids.h5");
  struct Case {
    const char *method, *plan;
    double error;
  };
  for (const auto& [method, plan, error] :
       {Case{"gptq+quantease", "weights=mxfp4", 0.3},
        {"gptaq", "weights=nvfp4", 0.3},
        {"gptq", "weights=ternary/channel", 0.9},
        {"gptq", "weights=e8p/channel", 0.5},
        {"gptaq", "q_proj.w=int4/channel,k_proj.w=e8p/group16,v_proj.w=e8p/channel", 0.5},
        {"gptq+quantease", "weights=ternary/group16", 0.9},
        {"gptq", "weights=grid(-4 -2 -1 0 1 2 4)/channel", 0.4},
        {"gptq+quantease", "weights=int4/group16+zero", 0.2},
        {"gptaq", "weights=int4/group16+min+mse", 0.2},
        {"gptq", "weights=int4/channel+full", 0.3}}) {
    const QuantizeSummary summary = Quantize({.model = GoldenFolder("diffllama-mha"),
                                              .plan = Plan::Parse(plan),
                                              .out = folder / "q.h5",
                                              .method = ParseMethod(method),
                                              .calibration = folder / "ids.h5"},
                                             {});
    EXPECT_LT(summary.relative_error, error) << plan;
    EXPECT_NO_THROW(QuantizedCheckpoint(folder / "q.h5").Verify());
  }
}

}  // namespace

}  // namespace tare::round_layers_test
