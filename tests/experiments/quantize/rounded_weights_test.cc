// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/rounded_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/model/config/read_config.h"
#include "experiments/model/linear/fused_tensors.h"
#include "experiments/model/sites_of_model.h"
#include "experiments/quantize/steps/table.h"
#include "quant/base/error.h"
#include "tests/support/call.h"
#include "tests/support/golden.h"

namespace tare::rounded_weights_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(WeightSites, TensorsByName) {
  const std::map<std::string, SiteKey> sites = WeightSites({.family = "llama", .layers = 13});
  EXPECT_EQ(sites.size(), 13u * 7 + 1);
  EXPECT_EQ(sites.at("model.layers.12.mlp.down_proj.weight").site, Site::kDownProjW);
  EXPECT_EQ(sites.at("model.layers.12.mlp.down_proj.weight").layer, 12);
  EXPECT_EQ(sites.at("model.layers.0.self_attn.q_proj.weight").site, Site::kQProjW);
  EXPECT_EQ(sites.at("lm_head.weight").site, Site::kLmHeadW);
  EXPECT_FALSE(sites.at("lm_head.weight").layer);
}

int64_t Check(const char* plan, const char* method = "rtn") {
  const auto model = GoldenFolder("llama-gqa");
  return CheckRounding({.model = model, .plan = Plan::Parse(plan), .out = {}, .method = ParseMethod(method)},
                       Checkpoint(model), LoadConfig(model));
}

TEST(RoundedWeights, MatricesThatThePlanRoundsAreCounted) {
  const int layers = LoadConfig(GoldenFolder("llama-gqa")).layers;
  EXPECT_EQ(Check("down_proj.w=int8/channel"), layers);
  EXPECT_EQ(Check("q_proj.w[l0]=int8/channel,o_proj.w=int4/group16"), layers + 1);
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
  EXPECT_EQ(matrices.StoredBytes("model.layers.0.mlp.down_proj.weight"), down.out * down.in * 2);
  EXPECT_THAT(Call([&] { matrices.Stored("model.norm.weight"); }),
              testing::ThrowsMessage<Error>("checkpoint: tensor 'model.norm.weight': got a tensor of 1 dimensions, "
                                            "expected a matrix"));
}

}  // namespace
}  // namespace tare::rounded_weights_test
