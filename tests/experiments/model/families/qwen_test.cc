// SPDX-License-Identifier: Apache-2.0
// The Qwen families; parity_test.cc compares their forward passes with transformers.
//   qwen2: which layers have a window and which projections a bias
//   qwen3: keys of the configuration, rows of the gate (also in parity_test.cc), plans for gates and norms
//   qwen3_moe: its keys, and those of mixtral; greedy_test.cc compares tokens
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "experiments/model/config/config.h"
#include "experiments/model/decoder.h"
#include "experiments/model/families/table.h"
#include "experiments/model/model.h"
#include "experiments/plan/resolved_plan.h"
#include "quant/base/message.h"
#include "quant/file/json.h"
#include "tests/support/call.h"
#include "tests/support/checkpoint.h"
#include "tests/support/family_config.h"
#include "tests/support/golden.h"
#include "tests/support/logits.h"
#include "tests/support/simulated_plan.h"

namespace tare::qwen3_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Qwen3Test, Keys) {
  const ModelConfig plain = Parsed(SmallConfig("qwen3"));
  EXPECT_EQ(plain.head_dim, 128);
  EXPECT_TRUE(plain.qk_norm);
  EXPECT_EQ(plain.gate, OutputGate::kNone);
  EXPECT_FALSE(plain.attention_bias);
  EXPECT_TRUE(Parsed(With(SmallConfig("qwen3"), "qkv_bias", true)).attention_bias);
  const nlohmann::json by_head = With(SmallConfig("qwen3"), "headwise_attn_output_gate", true);
  EXPECT_EQ(Parsed(by_head).gate, OutputGate::kPerHead);
  EXPECT_EQ(Parsed(With(SmallConfig("qwen3"), "elementwise_attn_output_gate", true)).gate, OutputGate::kPerValue);
  ExpectConfigRefused(With(by_head, "elementwise_attn_output_gate", true), "elementwise_attn_output_gate",
                      "not supported");
  ExpectConfigRefused(With(SmallConfig("qwen3"), "use_qk_norm", false), "use_qk_norm", "not supported");
}

// A gate that the configuration forgets, or that the weights lack.
TEST(Qwen3Test, GateRowsAreRowsOfQProj) {
  const TemporaryFolder folder;
  for (const auto& [golden, key, rows] : {std::tuple{"qwen3-gate-head", "headwise_attn_output_gate", 36},
                                          {"qwen3-gate-element", "elementwise_attn_output_gate", 64}}) {
    EditedCheckpoint checkpoint(GoldenFolder(golden));
    checkpoint.config[key] = false;
    checkpoint.Write(folder / golden);
    EXPECT_THAT(Call([&] { Model model(folder / golden); }),
                ThrowsMessage<Error>(AllOf(HasSubstr(golden), HasSubstr("layers.0.self_attn.q_proj.weight"),
                                           HasSubstr(Formatted("got shape [{}, 32], expected [32, 32]", rows)))));
  }
}

double EffectOf(const char* golden, const char* plan) {
  Model model(GoldenFolder(golden));
  const std::vector<float> exact = LogitsOf(model, GoldenBatch(golden));
  SimulatedPlan simulated(plan, model.config());
  SiteVisitor* const visitors[] = {&simulated};
  const std::vector<float> changed = LogitsOf(model, GoldenBatch(golden), visitors);
  double sum = 0;
  for (size_t i = 0; i < exact.size(); ++i) sum += std::pow(double{exact[i]} - changed[i], 2);
  return sum;
}

TEST(Qwen3Test, NormsAndGatesAreSites) {
  for (const char* golden : {"qwen3-gate-head", "qwen3-gate-element"}) {
    const double coarse = EffectOf(golden, "attn_gate=u4/head"), fine = EffectOf(golden, "attn_gate=u8/head");
    EXPECT_GT(coarse, 10 * fine) << golden;
    EXPECT_GT(fine, 0) << golden;
  }
  for (const char* plan : {"q_norm=int4/token", "k_norm[h1]=int4/head"}) EXPECT_GT(EffectOf("qwen3", plan), 0) << plan;
  EXPECT_THAT(Call([] { EffectOf("qwen3", "attn_gate=u8/token"); }),
              ThrowsMessage<Error>(AllOf(HasSubstr("got attn_gate"), HasSubstr("try head_out"))));
  EXPECT_THAT(Call([] { EffectOf("qwen2", "q_norm=int8/token"); }),
              ThrowsMessage<Error>(AllOf(HasSubstr("got q_norm"), HasSubstr("try q or k"))));
  EXPECT_THAT(Call([] {
                const ModelSites sites = ModelSitesOf(LoadConfig(GoldenFolder("qwen3")));
                ResolvedPlan(Plan::Parse("q_norm=int8/token"), sites, Carrying::kExecuted);
              }),
              ThrowsMessage<Error>(HasSubstr("a site without an integer kernel")));
}

}  // namespace
}  // namespace tare::qwen3_test

namespace tare::qwen2_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Qwen2Test, WindowsApplyOnlyIfTheConfigSaysSo) {
  const nlohmann::json unused = With(With(SmallConfig("qwen2"), "sliding_window", 5), "max_window_layers", 2);
  EXPECT_THAT(Parsed(unused).windows, IsEmpty());
  const nlohmann::json used = With(unused, "use_sliding_window", true);
  EXPECT_THAT(Parsed(used).windows, ElementsAre(0, 0, 5, 5));
  EXPECT_THAT(Parsed(With(used, "max_window_layers", 4)).windows, IsEmpty());
  EXPECT_THAT(Parsed(With(With(SmallConfig("qwen2"), "use_sliding_window", true), "max_window_layers", 3)).windows,
              ElementsAre(0, 0, 0, 4096));
  const nlohmann::json types = {"sliding_attention", "full_attention", "full_attention", "sliding_attention"};
  EXPECT_THAT(Parsed(With(used, "layer_types", types)).windows, ElementsAre(5, 0, 0, 5));
  ExpectConfigRefused(With(unused, "layer_types", types), "layer_types", "no sliding_window is in use");
  ExpectConfigRefused(With(used, "layer_types", {"full_attention"}), "layer_types", "num_hidden_layers 4");
  ExpectConfigRefused(With(used, "layer_types", nlohmann::json(4, "chunked_attention")), "layer_types",
                      "'chunked_attention' in layer 0");
  ExpectConfigRefused(With(used, "use_mrope", true), "use_mrope", "not supported");
}

TEST(Qwen2Test, QueriesKeysAndValuesHaveBiases) {
  const Projector projector(Math::kF32);
  Weights weights(GoldenFolder("qwen2"), projector);
  const LayerWeights layer = kQwen2.load(weights, LoadConfig(GoldenFolder("qwen2")), 1);
  for (const LinearWeights* linear : {&layer.q, &layer.k, &layer.v}) EXPECT_FALSE(linear->bias().empty());
  for (const LinearWeights* linear : {&layer.o, &layer.gate, &layer.up, &layer.down})
    EXPECT_TRUE(linear->bias().empty());
  EXPECT_EQ(layer.mask.kind, Mask::Kind::kWindow);
  EXPECT_EQ(layer.mask.window, 7);
}

}  // namespace
}  // namespace tare::qwen2_test

namespace tare::qwen3_moe_test {
namespace {

TEST(Qwen3MoeTest, ReadsItsKeys) {
  const ModelConfig mixtral = LoadConfig(GoldenFolder("mixtral")), qwen = LoadConfig(GoldenFolder("qwen3-moe"));
  EXPECT_EQ(mixtral.experts, 4);
  EXPECT_TRUE(mixtral.shares_sum);
  EXPECT_FALSE(mixtral.gate_with_up);
  EXPECT_EQ(qwen.experts, 6);
  EXPECT_EQ(qwen.ffn, 32);
  EXPECT_FALSE(qwen.shares_sum);
  EXPECT_TRUE(qwen.qk_norm);
  nlohmann::json json = ReadJson(GoldenFolder("qwen3-moe") / "config.json");
  const auto refused = [&](const char* key, const nlohmann::json& value, const char* says) {
    nlohmann::json other = json;
    other[key] = value;
    ExpectConfigRefused(other, key, says);
  };
  json["use_sliding_window"] = true, json["sliding_window"] = 5, json["max_window_layers"] = 1;
  EXPECT_THAT(Parsed(json).windows, testing::Each(5)) << "as in transformers 5.12";
  refused("mlp_only_layers", 1, "expected a list of integers");
  refused("decoder_sparse_step", 0, "got 0");
  json["num_hidden_layers"] = 6, json["mlp_only_layers"] = {3, 9}, json["decoder_sparse_step"] = 2;
  EXPECT_THAT(Parsed(json).dense, testing::ElementsAre(true, false, true, true, true, false));
  refused("moe_intermediate_size", 0, "got 0");
}

}  // namespace
}  // namespace tare::qwen3_moe_test
