// SPDX-License-Identifier: Apache-2.0
// What other code reads from a family's record. toy_family_test.cc shows that one record and one source are a whole
// family.
#include "experiments/model/config/family.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tare::family_test {
namespace {

const ModelConfig kPlain{
    .family = "llama", .vocabulary = 9, .hidden = 32, .ffn = 48, .layers = 4, .heads = 8, .kv_heads = 4, .head_dim = 6};

ModelConfig Differential() {
  ModelConfig config = kPlain;
  config.family = "diffllama";
  return config;
}

TEST(FamilyTest, HeadsAndMapsFollowFromTheTable) {
  EXPECT_EQ(Maps(kPlain), 1);
  EXPECT_EQ(Maps(Differential()), 2);
  EXPECT_EQ(AttendedWidth(kPlain), 48);
  EXPECT_EQ(AttendedWidth(Differential()), 48);  // half the heads, twice as wide
  for (const ModelConfig& config : {kPlain, Differential()}) {
    const int output_heads = config.family == "llama" ? 8 : 4;
    EXPECT_EQ(HeadsOf(Site::kAttnLogits, config), 8);
    EXPECT_EQ(HeadsOf(Site::kV, config), 4);
    EXPECT_EQ(HeadsOf(Site::kDifference, config), output_heads);
    EXPECT_EQ(HeadsOf(Site::kHeadOut, config), output_heads);
    EXPECT_EQ(HeadsOf(Site::kLayerOut, config), 0);
  }
}

TEST(FamilyTest, AHeadUsedByBothMapsHasNoMap) {
  const std::vector<OutputHead> shared = DiffLlamaHeads(4, 1), standard = StandardHeads(4, 2), pairs = V2Heads(2, 1);
  EXPECT_EQ(MapOf(shared, Site::kK, 0), std::nullopt);
  EXPECT_EQ(MapOf(shared, Site::kQ, 1), 1);
  EXPECT_EQ(MapOf(shared, Site::kQ, 2), 2);
  EXPECT_EQ(MapOf(standard, Site::kQ, 3), 1);
  EXPECT_EQ(MapOf(standard, Site::kV, 1), std::nullopt);
  for (const Site site : {Site::kQ, Site::kAttnLogits, Site::kProbs}) {
    EXPECT_EQ(MapOf(pairs, site, 1), 2);
    EXPECT_EQ(MapOf(pairs, site, 2), 1);
  }
}

TEST(FamilyTest, TensorsAndShapes) {
  ModelConfig config = kPlain;
  EXPECT_EQ(LayerTensor(config, 3, "a.b"), "model.layers.3.a.b");
  EXPECT_EQ(HeadTensor(config), "lm_head.weight");
  config.tied_embeddings = true;
  EXPECT_EQ(HeadTensor(config), "model.embed_tokens.weight");
  const auto shape = [&](Site site) { return std::pair(ShapeOf(site, config).out, ShapeOf(site, config).in); };
  EXPECT_EQ(shape(Site::kQProjW), (std::pair<int64_t, int64_t>(48, 32)));
  EXPECT_EQ(shape(Site::kKProjW), (std::pair<int64_t, int64_t>(24, 32)));
  EXPECT_EQ(shape(Site::kVProjW), (std::pair<int64_t, int64_t>(24, 32)));
  EXPECT_EQ(shape(Site::kOProjW), (std::pair<int64_t, int64_t>(32, 48)));
  EXPECT_EQ(shape(Site::kUpProjW), (std::pair<int64_t, int64_t>(48, 32)));
  EXPECT_EQ(shape(Site::kDownProjW), (std::pair<int64_t, int64_t>(32, 48)));
  EXPECT_EQ(shape(Site::kLmHeadW), (std::pair<int64_t, int64_t>(9, 32)));
}

}  // namespace
}  // namespace tare::family_test
