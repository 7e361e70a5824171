// SPDX-License-Identifier: Apache-2.0
// Sinks, windows, positions and experts of gpt-oss: what specific keys and tensors do, plans, caches and refusals;
// parity_test.cc compares the forward pass with golden data.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <numeric>

#include "experiments/export/hugging_face.h"
#include "experiments/model/config/config.h"
#include "experiments/model/model.h"
#include "experiments/model/plan_run.h"
#include "experiments/model/random_checkpoint.h"
#include "experiments/quantize/quantize.h"
#include "experiments/quantize/steps/table.h"
#include "quant/base/message.h"
#include "tests/support/call.h"
#include "tests/support/checkpoint.h"
#include "tests/support/compare.h"
#include "tests/support/family_config.h"
#include "tests/support/golden.h"
#include "tests/support/logits.h"

namespace tare::gpt_oss_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr const char* kName = "gpt-oss";

nlohmann::json Small() {
  nlohmann::json json = SmallConfig("gpt_oss");
  json["num_local_experts"] = 8;
  return json;
}

TEST(GptOssTest, WhatKeysSay) {
  const ModelConfig c = Parsed(Small());
  EXPECT_THAT(c.windows, ElementsAre(128, 0, 128, 0));
  EXPECT_EQ(c.head_dim, 64);
  EXPECT_EQ(c.experts, 8);
  EXPECT_EQ(c.chosen_experts, 4);
  EXPECT_TRUE(c.sinks && c.attention_bias && c.mlp_bias);
  EXPECT_EQ(c.max_positions, 131072);
  EXPECT_EQ(c.rotary.type, RotaryConfig::Type::kYarn);
  EXPECT_EQ(c.rotary.theta, 150000);
  EXPECT_FALSE(c.rotary.truncate);
  EXPECT_DOUBLE_EQ(c.rotary.attention_factor, 0.1 * std::log(32.0) + 1);
  const ModelConfig some = Parsed(
      With(With(Small(), "layer_types", {"full_attention", "sliding_attention", "full_attention", "full_attention"}),
           "sliding_window", 9));
  EXPECT_THAT(some.windows, ElementsAre(0, 9, 0, 0));
  nlohmann::json published = Small();  // keys of the published file
  published.update({{"experts_per_token", 4},
                    {"num_experts_per_tok", 4},
                    {"swiglu_limit", 7.0},
                    {"initial_context_length", 4096},
                    {"rope_theta", 150000},
                    {"rope_scaling",
                     {{"beta_fast", 32.0},
                      {"beta_slow", 1.0},
                      {"factor", 32.0},
                      {"original_max_position_embeddings", 4096},
                      {"rope_type", "yarn"},
                      {"truncate", false}}}});
  const RotaryConfig yarn = Parsed(published).rotary;
  EXPECT_EQ(yarn.attention_factor, c.rotary.attention_factor);
  EXPECT_EQ(yarn.original_positions, c.rotary.original_positions);
  EXPECT_FALSE(yarn.truncate);
}

TEST(GptOssTest, RefusesWhatItDoesNotCompute) {
  const auto yarn = [](const char* key, const nlohmann::json& value) {
    nlohmann::json scaling = {{"rope_type", "yarn"}, {"factor", 8}, {"original_max_position_embeddings", 4096}};
    scaling[key] = value;
    return With(Small(), "rope_parameters", scaling);
  };
  Parsed(yarn("beta_fast", 32));
  ExpectConfigRefused(yarn("factor", 0), "rope_parameters: factor", "got 0, expected a positive number");
  EXPECT_EQ(Parsed(yarn("factor", nullptr)).rotary.factor, 32) << "max_position_embeddings over the original ones";
  ExpectConfigRefused(yarn("beta_fast", 0.5), "rope_parameters: beta_fast", "got 0.5, expected more than beta_slow 1");
  ExpectConfigRefused(yarn("beta_slow", -1), "rope_parameters: beta_slow", "a positive number");
  ExpectConfigRefused(yarn("truncate", 1), "rope_parameters: truncate", "true or false");
  ExpectConfigRefused(yarn("attention_factor", 0), "rope_parameters: attention_factor", "a positive number");
  ExpectConfigRefused(yarn("original_max_position_embeddings", 4), "rope_parameters: original_max_position_embeddings",
                      "got 4, expected more than");
  ExpectConfigRefused(yarn("rope_theta", 1), "rope_parameters: rope_theta", "got 1, expected more than 1");
  ExpectConfigRefused(yarn("rope_type", "ntk"), "rope_parameters: rope_type", "got 'ntk'");
  ExpectConfigRefused(With(Small(), "sliding_window", 0), "sliding_window", "got 0");
  ExpectConfigRefused(With(Small(), "sliding_window", nullptr), "sliding_window",
                      "got null, expected a number of keys");
  ExpectConfigRefused(With(Small(), "layer_types", {"full_attention"}), "layer_types", "got 1 layers");
  ExpectConfigRefused(With(Small(), "layer_types", {"mamba", "mamba", "mamba", "mamba"}), "layer_types", "got 'mamba'");
  ExpectConfigRefused(With(Small(), "num_local_experts", 0), "num_local_experts", "got 0");
  ExpectConfigRefused(With(Small(), "num_local_experts", 1 << 20), "num_local_experts", "expected 1 to 16384");
  ExpectConfigRefused(With(Small(), "num_experts_per_tok", 9), "num_experts_per_tok",
                      "got 9, expected at most num_local_experts 8");
  ExpectConfigRefused(With(Small(), "experts_per_token", 2), "experts_per_token",
                      "got 2, expected num_experts_per_tok");
  ExpectConfigRefused(With(Small(), "swiglu_limit", 5.0), "swiglu_limit", "not supported");
}

// tests/data/golden/gpt-oss: probs.{i} [2, heads, T, T] and their sums' distance from 1.
TEST(GptOssTest, ProbabilitiesLackTheSinksShare) {
  Model model(GoldenFolder(kName));
  const Safetensors expected(GoldenFolder(kName) / "expected.safetensors");
  const int64_t T = expected.Find("input_ids")->shape[1];
  struct Shares : SiteVisitor {
    explicit Shares(const Safetensors& file, int64_t tokens) : expected(file), T(tokens) {}
    bool Wants(Site site, std::optional<int>) const override { return site == Site::kProbs; }
    void Visit(const SiteBlock& b, int) override {
      const auto want = ValuesOf<float>(expected, "probs." + std::to_string(*b.layer));
      for (int64_t r = 0; r < b.rows; ++r) {
        double sum = 0;
        for (int64_t c = b.First(r); c < b.Columns(r); ++c) {
          const float p = b.Row(r)[static_cast<size_t>(c - b.First(r))];
          EXPECT_NEAR(p, want[((b.sequence * 4 + *b.head) * T + b.first_row + r) * T + c], 2e-5);
          sum += p;
        }
        ASSERT_NE(b.sink_shares, nullptr);
        EXPECT_NEAR(sum + b.sink_shares[r], 1, 1e-6);
        rows += 1;
      }
    }
    const Safetensors& expected;
    int64_t T;
    std::atomic<int64_t> rows = 0;
  } shares(expected, T);
  SiteVisitor* const visitors[] = {&shares};
  LogitsOf(model, GoldenBatch(kName), visitors);
  EXPECT_EQ(shares.rows, 3 * 2 * 4 * T);
}

std::vector<float> Under(Model& model, const std::string& plan, Carrying carrying, const char* name = kName) {
  PlanRun run(Plan::Parse(plan), carrying, ModelSitesOf(model));
  const SiteVisitors visitors = run.Begin(model);
  return LogitsOf(model, GoldenBatch(name), visitors);
}

double Distance(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::pow(double{a[i]} - b[i], 2);
  return std::sqrt(sum);
}

// Executed attention with sinks is near the simulated plan, and both near the model.
TEST(GptOssTest, PlansOfAttention) {
  Model model(GoldenFolder(kName));
  const std::string attention = "q=int8/token,k=int8/token,v=int8/block64.channel,probs=u8/block64";
  const std::vector<float> exact = Under(model, "", Carrying::kSimulated);
  for (const std::string& plan : {attention, attention + ",attn_logits=int6/row"}) {
    const std::vector<float> simulated = Under(model, plan, Carrying::kSimulated),
                             executed = Under(model, plan, Carrying::kExecuted);
    EXPECT_GT(Distance(simulated, exact), 0) << plan;
    EXPECT_LT(Distance(executed, simulated), 0.6 * Distance(simulated, exact)) << plan;
  }
  for (const auto& [plan, why] :
       {std::pair{"attn_logits=int8/row+sink", "have learned sinks"},
        {"k=int8/token+smooth", "rows of heads with learned sinks do not sum to 1"},
        {"experts.down.w=int8/channel,experts.down.in[h0]=int8/token", "got some of a token's experts, expected all"},
        {"experts.down.w[e5]=int8/channel", "got expert 5 of experts.down.w, expected 0 to 4"},
        {"gate_proj.w=int8/channel", "got gate_proj.w, expected a site of this gpt_oss model, which has none"}}) {
    EXPECT_THAT(Call([&] { Under(model, plan, Carrying::kExecuted); }), ThrowsMessage<UsageError>(HasSubstr(why)))
        << plan;
  }
}

TEST(GptOssTest, PlansReachTheExperts) {
  Model model(GoldenFolder(kName));
  const std::vector<float> exact = Under(model, "", Carrying::kSimulated);
  for (const char* plan :
       {"experts.gate_up.w=int8/channel", "experts.down.w=int8/channel", "experts.gate_up.in=int8/token",
        "experts.down.in=int8/token", "experts.down.in[h1]=int8/token", "experts.gate_up.w[l1]=int8/group32"}) {
    const std::vector<float> rounded = Under(model, plan, Carrying::kSimulated);
    EXPECT_NE(rounded, exact) << plan;
    EXPECT_LT(Distance(rounded, exact), 0.1 * Distance(exact, std::vector<float>(exact.size()))) << plan;
  }
}

TEST(GptOssTest, PlansSelectExperts) {
  for (const char* name : {"gpt-oss", "gpt-oss-mxfp4"}) {
    Model model(GoldenFolder(name));
    const auto under = [&](const std::string& plan) { return Under(model, plan, Carrying::kSimulated, name); };
    const std::vector<float> exact = under(""), all = under("experts.gate_up.w=int4/channel"),
                             some = under("experts.gate_up.w[l1,e0-2]=int4/channel");
    EXPECT_NE(some, exact);
    EXPECT_LT(Distance(some, exact), Distance(all, exact));
    EXPECT_EQ(under("experts.gate_up.w[e0,e1-3]=int4/channel,experts.gate_up.w[e4]=int4/channel"), all);
    EXPECT_EQ(under("weights=int4/channel,experts.down.w=f32,experts.gate_up.w[e3]=f32"),
              under("weights=int4/channel,experts.down.w[e0-4]=f32,experts.gate_up.w=f32,"
                    "experts.gate_up.w[e4,e0-2]=int4/channel"));
  }
}

// The weights of experts that are kept, and those that are made whenever they are used.
TEST(GptOssTest, ExpertsOfLargeModelsAreMadeWhenTheyAreUsed) {
  for (const char* name : {"gpt-oss", "gpt-oss-mxfp4"}) {
    Model kept(GoldenFolder(name)), large(GoldenFolder(name), Math::kF32, {.converted = 0});
    const auto same = [&](const std::string& plan, Carrying carrying) {
      EXPECT_EQ(Under(large, plan, carrying, name), Under(kept, plan, carrying, name)) << name << ' ' << plan;
    };
    // Without a plan weights by columns are multiplied as they are stored, whose sums may have another order.
    const auto alike = [&] {
      const std::vector<float> got = Under(large, "", Carrying::kSimulated, name),
                               want = Under(kept, "", Carrying::kSimulated, name);
      EXPECT_LT(Distance(got, want), 1e-5 * Distance(want, std::vector<float>(want.size()))) << name;
    };
    alike();
    same("weights=int4/group32,experts.down.in=int8/token", Carrying::kSimulated);
    same("weights=int8/channel,linear_in=int8/token", Carrying::kExecuted);
    same("weights=int8/channel", Carrying::kExecuted);
    alike();  // nothing of a plan stays
  }
}

// Integers are summed exactly where f32 rounds, so what differs is far below what the plan loses.
TEST(GptOssTest, ExecutedInputsOfExperts) {
  Model model(GoldenFolder(kName));
  const std::vector<float> exact = Under(model, "", Carrying::kSimulated);
  for (const char* plan :
       {"experts.gate_up.w=int8/channel,experts.gate_up.in=int8/token",
        "experts.down.w=int4/group32,experts.down.in=int8/token", "weights=int8/channel,linear_in=int8/token"}) {
    const std::vector<float> simulated = Under(model, plan, Carrying::kSimulated),
                             executed = Under(model, plan, Carrying::kExecuted);
    EXPECT_GT(Distance(simulated, exact), 0) << plan;
    EXPECT_LT(Distance(executed, simulated), 0.2 * Distance(simulated, exact)) << plan;
  }
}

// The tokens of the golden input; and a router that never chooses expert 2 in layer 1.
TEST(GptOssTest, MethodsCalibrateEachExpert) {
  const TemporaryFolder folder;
  EditedCheckpoint checkpoint(GoldenFolder(kName));
  checkpoint.tensors.at("model.layers.1.mlp.router.bias").SetBits(2, 0xc2c8);  // -100
  checkpoint.Write(folder / "m");
  QuantizeJob job{.model = folder / "m", .plan = Plan::Parse("weights=int4/group32"), .out = folder / "rtn.h5"};
  Quantize(job, {});
  const QuantizedCheckpoint nearest(folder / "rtn.h5");
  job.calibration = GoldenFolder(kName) / "expected.safetensors";
  for (const char* method : {"gptq", "gptaq+quantease"}) {
    job.method = ParseMethod(method);
    job.out = folder / (std::string(method) + ".h5");
    const QuantizeSummary summary = Quantize(job, {});
    ASSERT_EQ(summary.experts.size(), 3u);
    for (const ReachedExperts& layer : summary.experts)
      EXPECT_EQ(std::accumulate(layer.tokens.begin(), layer.tokens.end(), int64_t{0}), 2 * 2 * 23);
    EXPECT_EQ(summary.experts[1].tokens[2], 0);
    const QuantizedCheckpoint calibrated(job.out);
    for (const char* matrix : {"gate_up_proj", "down_proj"}) {
      for (int expert = 0; expert < 5; ++expert) {
        const std::string name = Formatted("model.layers.1.mlp.experts.{}.{}.weight", expert, matrix);
        const QuantizedMatrix &a = nearest.matrices().at(name), &b = calibrated.matrices().at(name);
        const bool same = std::memcmp(a.codes, b.codes, static_cast<size_t>(a.out) * a.RowBytes()) == 0;
        EXPECT_EQ(same, summary.experts[1].tokens[static_cast<size_t>(expert)] == 0) << method << ' ' << name;
      }
    }
    Model model(job.out);
    for (const float logit : LogitsOf(model, GoldenBatch(kName))) ASSERT_TRUE(std::isfinite(logit));
  }
}

TEST(GptOssTest, TensorsThatDisagreeAreNamed) {
  const TemporaryFolder folder;
  const auto refused = [&](const char* golden, auto change, const std::vector<std::string>& says) {
    EditedCheckpoint checkpoint(GoldenFolder(golden));
    change(checkpoint);
    checkpoint.Write(folder / "m");
    for (const std::string& text : says)
      EXPECT_THAT(Call([&] { Model(folder / "m"); }), ThrowsMessage<Error>(HasSubstr(text)));
  };
  refused(kName, [](EditedCheckpoint& c) { c.config["num_local_experts"] = 6; },
          {"mlp.experts.gate_up_proj': got shape [5, 64, 64], expected [6, 64, 64]", "of 6 experts"});
  refused("gpt-oss-mxfp4", [](EditedCheckpoint& c) { c.config["num_local_experts"] = 6; },
          {"mlp.experts.gate_up_proj.weight': got 320 rows of 64 values of all experts, expected 384 of 64",
           "of 6 experts"});
  refused(kName,
          [](EditedCheckpoint& c) {
            auto& sinks = c.tensors.at("model.layers.2.self_attn.sinks");
            sinks.shape = {3};
            sinks.bytes.resize(6);
          },
          {"tensor 'model.layers.2.self_attn.sinks': got shape [3], expected [4]"});
  refused(kName, [](EditedCheckpoint& c) { c.tensors.at("model.layers.0.self_attn.sinks").SetBits(1, 0x7fc0); },
          {"model.layers.0.self_attn.sinks', index 1: NaN or infinity"});
  refused(kName, [](EditedCheckpoint& c) { c.tensors.at("model.layers.0.mlp.experts.down_proj").SetBits(9, 0x7f80); },
          {"model.layers.0.mlp.experts.down_proj', index 9: NaN or infinity"});
  refused(kName, [](EditedCheckpoint& c) { c.tensors.erase("model.layers.1.mlp.experts.down_proj"); },
          {"model.layers.1.mlp.experts.0.down_proj.weight': missing"});
  refused("gpt-oss-mxfp4", [](EditedCheckpoint& c) { c.tensors.erase("model.layers.1.mlp.experts.down_proj_scales"); },
          {"down_proj_scales"});
  refused("gpt-oss-mxfp4",
          [](EditedCheckpoint& c) { c.tensors.at("model.layers.1.mlp.experts.down_proj_scales").SetBits(3, 255); },
          {"down_proj_scales', index 3: got a scale of nan"});
  refused("gpt-oss-mxfp4", [](EditedCheckpoint& c) { c.config["quantization_config"]["group_size"] = 64; },
          {"quantization_config: group_size"});
}

TEST(GptOssTest, ARandomCheckpointIsWhole) {
  const TemporaryFolder folder;
  ModelConfig asked = Parsed(With(With(Small(), "num_experts_per_tok", 2), "sliding_window", 5));
  asked.rotary = {};
  asked.max_positions = 64;
  WriteRandomCheckpoint(folder / "m", asked, WeightType::kBf16, 3);
  Model model(folder / "m");
  EXPECT_EQ(model.config().windows, asked.windows);
  EXPECT_EQ(model.config().experts, 8);
  TokenBatch batch;
  batch.Add(0, std::vector<int32_t>{1, 2, 3, 4, 5, 6, 7});
  for (const float logit : LogitsOf(model, batch)) EXPECT_TRUE(std::isfinite(logit));
}

TEST(GptOssTest, RefusesCachesThatItCannotHave) {
  ModelConfig c = LoadConfig(GoldenFolder(kName));
  EXPECT_THAT(Call([&] { SequenceCache(c, ParseCachePlan("keep=h2o/64")); }),
              ThrowsMessage<Error>(HasSubstr("got heads with learned sinks")));
}

// rtn in a file is rtn in memory, of experts in bf16 and in MXFP4; what puts tensors together again is refused by name.
TEST(GptOssTest, QuantizedExpertsAreThoseOfThePlan) {
  const TemporaryFolder folder;
  for (const char* name : {"gpt-oss", "gpt-oss-mxfp4"}) {
    QuantizeJob job{.model = GoldenFolder(name), .plan = Plan::Parse("weights=int4/group32"), .out = folder / "q.h5"};
    const QuantizeSummary summary = Quantize(job, {});
    EXPECT_EQ(summary.matrices, 3 * (4 + 5 * 2));
    EXPECT_EQ(summary.values, 3 * (2 * 64 * 64 + 2 * 32 * 64 + 5 * (64 * 64 + 64 * 32)));
    Model quantized(folder / "q.h5"), model(GoldenFolder(name));
    EXPECT_EQ(LogitsOf(quantized, GoldenBatch(name)), Under(model, "weights=int4/group32", Carrying::kSimulated, name));
    EXPECT_THAT(Call([&] { ExportDequantized(folder / "q.h5", GoldenFolder(name), folder / "e"); }),
                ThrowsMessage<Error>(HasSubstr("got a model with experts")));
    std::filesystem::remove(folder / "q.h5");
  }
}

}  // namespace
}  // namespace tare::gpt_oss_test
