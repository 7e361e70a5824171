// SPDX-License-Identifier: Apache-2.0
#include "experiments/plan/model_sites.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tare::model_sites_test {
namespace {

TEST(ModelSites, KeysOfEverySite) {
  ModelSites model{.family = "toy", .layers = 2, .maps = 1, .tied_head = false, .heads = {}, .weights = {}};
  model.heads[Site::kQ] = {1, std::nullopt};
  EXPECT_THAT(model.Keys(Site::kEmbed), testing::ElementsAre(SiteKey{Site::kEmbed}));
  EXPECT_THAT(model.Keys(Site::kLayerOut),
              testing::ElementsAre(SiteKey{Site::kLayerOut, 0}, SiteKey{Site::kLayerOut, 1}));
  EXPECT_THAT(model.Keys(Site::kQ), testing::ElementsAre(SiteKey{Site::kQ, 0, 0, 1}, SiteKey{Site::kQ, 0, 1},
                                                         SiteKey{Site::kQ, 1, 0, 1}, SiteKey{Site::kQ, 1, 1}));
  EXPECT_FALSE(model.Has(Site::kDifference));
  EXPECT_TRUE(model.Keys(Site::kDifference).empty());
  EXPECT_EQ(model.Heads(Site::kQ), 2);
  EXPECT_EQ(model.Heads(Site::kLayerOut), 0);
}

}  // namespace
}  // namespace tare::model_sites_test
