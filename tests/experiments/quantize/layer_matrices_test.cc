// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/layer_matrices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/model/linear/fused_tensors.h"
#include "experiments/model/sites_of_model.h"
#include "quant/base/error.h"
#include "tests/support/call.h"
#include "tests/support/golden.h"

namespace tare {
namespace {

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
}  // namespace tare
