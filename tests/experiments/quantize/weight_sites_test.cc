// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/weight_sites.h"

#include <gtest/gtest.h>

namespace tare {
namespace {

TEST(WeightSites, TensorsByName) {
  const std::map<std::string, SiteKey> sites = WeightSites({.family = "llama", .layers = 13});
  EXPECT_EQ(sites.size(), 13u * 7 + 1);
  EXPECT_EQ(sites.at("model.layers.12.mlp.down_proj.weight").site, Site::kDownProjW);
  EXPECT_EQ(sites.at("model.layers.12.mlp.down_proj.weight").layer, 12);
  EXPECT_EQ(sites.at("model.layers.0.self_attn.q_proj.weight").site, Site::kQProjW);
  EXPECT_EQ(sites.at("lm_head.weight").site, Site::kLmHeadW);
  EXPECT_FALSE(sites.at("lm_head.weight").layer);
}

}  // namespace
}  // namespace tare
