// SPDX-License-Identifier: Apache-2.0
// In the released build alone: it quantizes whole models again and again, ten times as long under sanitizers.
#include "experiments/quantize/round_layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "experiments/model/config/config.h"
#include "experiments/model/linear/weights.h"
#include "experiments/model/model.h"
#include "experiments/model/plan_run.h"
#include "experiments/quantize/quantize.h"
#include "experiments/quantize/steps/table.h"
#include "quant/base/message.h"
#include "quant/file/quantized_checkpoint.h"
#include "quant/interchange/gguf/imatrix.h"
#include "quant/plan/site.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/calibrated_job.h"
#include "tests/support/call.h"
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
  EXPECT_LT(many.weight_error, few.weight_error / 8);
  EXPECT_GT(many.weight_error, 0);
  EXPECT_LT(few.bytes_after, many.bytes_after);
  EXPECT_LT(many.bytes_after, many.bytes_before);
}

// In every format that weights have, the file and the simulated plan are one model. Rows of 112 end in half a block.
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
        {"gptq+quantease", "weights=if4", 0.3},
        {"gptaq", "weights=nvfp4", 0.3},
        {"qronos", "weights=nvfp4+hadamard16", 0.5},
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
    EXPECT_LT(summary.weight_error, error) << plan;
    EXPECT_NO_THROW(QuantizedCheckpoint(folder / "q.h5").Verify());
  }
}

}  // namespace

}  // namespace tare::round_layers_test

namespace tare::rounded_weights_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

// Squared errors of all weights, times the importance of their channels, alike in every input.
double WeighedError(const std::filesystem::path& quantized, const gguf::Imatrix& imatrix) {
  const Checkpoint stored(GoldenFolder("llama-gqa"));
  const QuantizedCheckpoint file(quantized);
  double sum = 0;
  for (const auto& [name, m] : file.matrices()) {
    const WeightMatrix weight = StoredMatrix(stored, name, "stored");
    std::vector<float> exact(static_cast<size_t>(m.in)), rounded(exact);
    const std::vector<float>& importance = imatrix.entries.begin()->second.sums;
    for (int64_t row = 0; row < m.out; ++row) {
      RowAsFloat(weight, row, exact.data());
      DequantizeRow(m, row, rounded.data());
      for (size_t i = 0; i < exact.size(); ++i)
        sum += importance[i % importance.size()] * std::pow(double{exact[i]} - double{rounded[i]}, 2);
    }
  }
  return sum;
}

// Every other channel counts 10,000 times as much as the rest.
TEST(RoundLayers, AnImatrixWeighsTheErrorsOfMse) {
  const TemporaryFolder folder;
  const ModelConfig config = LoadConfig(GoldenFolder("llama-gqa"));
  gguf::Imatrix imatrix{.chunk_count = 1, .chunk_size = 1};
  const auto write = [&](float odd) {
    const int heads = config.heads * config.head_dim;
    for (const auto& [name, in] :
         {std::pair("attn_q", config.hidden), std::pair("attn_k", config.hidden), std::pair("attn_v", config.hidden),
          std::pair("attn_output", heads), std::pair("ffn_gate", config.hidden), std::pair("ffn_up", config.hidden),
          std::pair("ffn_down", config.ffn)}) {
      for (int layer = 0; layer < config.layers; ++layer) {
        gguf::Imatrix::Entry entry{.sums = {}, .counts = {1}};
        for (int i = 0; i < in; ++i) entry.sums.push_back(i % 2 == 0 ? 1.0f : odd);
        imatrix.entries[Formatted("blk.{}.{}.weight", layer, name)] = entry;
      }
    }
    WriteImatrix(imatrix, folder / "i.gguf");
  };
  QuantizeJob job{GoldenFolder("llama-gqa"), Plan::Parse("weights=int4/group16+mse"), folder / "plain.h5"};
  Quantize(job, {});
  job.imatrix = folder / "i.gguf";
  job.out = folder / "same.h5";
  write(1);
  Quantize(job, {});
  job.out = folder / "weighed.h5";
  write(10000);
  Quantize(job, {});
  EXPECT_EQ(WeighedError(folder / "same.h5", imatrix), WeighedError(folder / "plain.h5", imatrix));
  EXPECT_LT(WeighedError(folder / "weighed.h5", imatrix), 0.95 * WeighedError(folder / "plain.h5", imatrix));
  EXPECT_THAT(QuantizedCheckpoint(folder / "weighed.h5").provenance().calibration, HasSubstr("imatrix sha256 "));
  const auto refused = [&](const char* plan, const char* method, const char* message) {
    job.plan = Plan::Parse(plan);
    job.method = ParseMethod(method);
    EXPECT_THAT(Call([&] { Quantize(job, {}); }), ThrowsMessage<Error>(HasSubstr(message)));
  };
  refused("weights=int4/group16", "rtn",
          "--imatrix: got the plan 'weights=int4/group16', in which no weight has +mse, expected one");
  refused("weights=int4/group16+mse,weights=int4/group16", "rtn", "in which no weight has +mse, expected one");
  refused("weights=int4/group16+mse", "gptq", "--imatrix: got --method gptq, expected rtn, whose +mse it weighs");
  refused("weights=int4/group16+hadamard8+mse", "rtn",
          "with --imatrix, expected weights of layers, a scale per channel");
  refused("weights=int4/tensor+mse", "rtn", "with --imatrix, expected weights of layers, a scale per channel");
  imatrix.entries.erase("blk.1.ffn_up.weight");
  WriteImatrix(imatrix, folder / "i.gguf");
  refused("weights=int4/group16+mse", "rtn",
          "i.gguf: 'blk.1.ffn_up.weight': got 0 sums and 0 counts, expected 48 and 1");
  job.model = GoldenFolder("llama-mha");  // with a head of its own
  refused("weights=int4/group16+mse,lm_head.w=int8/channel+mse", "rtn", "got 'lm_head.weight' with --imatrix");
}

TEST(WeightSites, TensorsByName) {
  const std::map<std::string, SiteKey> sites = WeightSites({.family = "llama", .ffn = 4, .layers = 13});
  EXPECT_EQ(sites.size(), 13u * 7 + 1);
  EXPECT_EQ(sites.at("model.layers.12.mlp.down_proj.weight").site, Site::kDownProjW);
  EXPECT_EQ(sites.at("model.layers.12.mlp.down_proj.weight").layer, 12);
  EXPECT_EQ(sites.at("model.layers.0.self_attn.q_proj.weight").site, Site::kQProjW);
  EXPECT_EQ(sites.at("lm_head.weight").site, Site::kLmHeadW);
  EXPECT_FALSE(sites.at("lm_head.weight").layer);
}

void Check(const char* plan, const char* method = "rtn") {
  const auto model = GoldenFolder("llama-gqa");
  CheckRounding({.model = model, .plan = Plan::Parse(plan), .out = {}, .method = ParseMethod(method)},
                Checkpoint(model), LoadConfig(model));
}

TEST(RoundedWeights, MatricesThatCannotBeRoundedAreRefusedByRule) {
  const auto refuses = [](const char* plan, const char* method, const char* why) {
    EXPECT_THAT(Call([&] { Check(plan, method); }), ThrowsMessage<Error>(HasSubstr(why))) << plan;
  };
  refuses("down_proj.w=int8/group48", "rtn", "group48");
  refuses("down_proj.w=int8/tensor", "gptq", "try channel");
  refuses("linear_in=int8/token", "rtn", "got no rule for weights");
  refuses("weights=e8p/group4", "gptq", "got groups of 4 in 'model.layers.0.");
  for (const char* method : {"gptq", "awq"}) {
    refuses("weights=int4/group16,v_proj.w=int4/group16+hadamard16", method,
            "got another rotation of layer 0, v_proj.w");
    refuses("weights=int4/group16+hadamard16,up_proj.w=int4/group16+hadamard8", method,
            "up_proj.w than 'weights=int4/group16+hadamard16' has, expected the same for all weights with one input");
  }
  EXPECT_NO_THROW(Check("weights=int4/group16,v_proj.w=int4/group16+hadamard16"));
  EXPECT_NO_THROW(Check("weights=int4/group16,down_proj.w=int4/group16+hadamard16", "gptq"));
  refuses("weights=int4/group16+hadamard48", "rtn", "plan rule 'weights=int4/group16+hadamard48': layer 0, ");
  EXPECT_NO_THROW(Check("weights=int4/group16,v_proj.w=int4/group16+hadamard16", "autoround"));
  refuses("weights=e8p/channel", "autoround", "got e8p, expected integer codes");
  refuses("weights=e8p/channel", "gptq+quantease", "got e8p, expected a code for each weight");
}

TEST(LayerMatrices, AreThoseThatThePlanRoundsInALayersOrder) {
  const ModelConfig config = LoadConfig(GoldenFolder("llama-gqa"));
  Checkpoint files = OpenSplit(GoldenFolder("llama-gqa"), config);
  const ResolvedPlan plan(Plan::Parse("down_proj.w[l1]=int4/group16,q_proj.w[l1]=int8/channel"), ModelSitesOf(config),
                          Carrying::kSimulated);
  const LayerMatrices matrices("checkpoint", config, plan, files);
  EXPECT_FALSE(matrices.RoundsIn(0));
  EXPECT_TRUE(matrices.RoundsIn(1));
  std::vector<std::string> names;
  for (const int layer : {0, 1}) {
    matrices.ForEach(layer, [&](const LinearLayer& linear, const std::string& name, const Rule& rule) {
      EXPECT_EQ(&rule, matrices.RuleFor(linear));
      EXPECT_EQ(rule.format, name.contains("q_proj") ? Format::kInt8 : Format::kInt4);
      names.push_back(name);
    });
  }
  EXPECT_THAT(names,
              testing::ElementsAre("model.layers.1.self_attn.q_proj.weight", "model.layers.1.mlp.down_proj.weight"));
}

TEST(LayerMatrices, AreAsStored) {
  const ModelConfig config = LoadConfig(GoldenFolder("llama-gqa"));
  Checkpoint files = OpenSplit(GoldenFolder("llama-gqa"), config);
  const ResolvedPlan plan(Plan::Parse("weights=int4/group16"), ModelSitesOf(config), Carrying::kSimulated);
  const LayerMatrices matrices("checkpoint", config, plan, files);
  const WeightMatrix down = matrices.Stored("model.layers.0.mlp.down_proj.weight");
  EXPECT_EQ(down.out, config.hidden);
  EXPECT_EQ(down.in, config.ffn);
  EXPECT_THAT(Call([&] { matrices.Stored("model.norm.weight"); }),
              testing::ThrowsMessage<Error>("checkpoint: tensor 'model.norm.weight': got a tensor of 1 dimensions, "
                                            "expected a matrix"));
}

}  // namespace
}  // namespace tare::rounded_weights_test
