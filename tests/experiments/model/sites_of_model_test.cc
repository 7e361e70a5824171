// SPDX-License-Identifier: Apache-2.0
// Compared with what the forward pass shows.
#include "experiments/model/sites_of_model.h"

#include <gtest/gtest.h>

#include <set>

#include "experiments/model/config/read_config.h"
#include "tests/support/logits.h"
#include "tests/support/site_recorder.h"

namespace tare::sites_of_model_test {
namespace {

TEST(ModelSitesOf, MatchesTheForwardPass) {
  for (const char* name : kGoldenCheckpoints) {
    Model model(GoldenFolder(name));
    Recorder recorder;
    SiteVisitor* const visitors[] = {&recorder};
    model.Forward(GoldenBatch(name), visitors);
    std::set<SiteKey> shown, expected;
    for (const auto& [key, seen] : recorder.sites) shown.insert(key);
    const ModelSites sites = ModelSitesOf(model);
    for (const SiteInfo& info : kSites) {
      if (IsWeight(info.site) || IsCache(info.site)) continue;
      for (const SiteKey& key : sites.Keys(info.site)) expected.insert(key);
    }
    EXPECT_EQ(shown, expected) << name;
    std::set<SiteKey> weights{{Site::kLmHeadW}};
    for (int layer = 0; layer < sites.layers; ++layer) {
      for (const LinearLayer& linear : LinearLayersOf(model.config(), layer)) weights.insert(linear.WeightKey());
    }
    EXPECT_EQ(sites.weights.size(), weights.size());
    const bool experts = model.config().experts > 0;
    const SiteKey down{.site = experts ? Site::kExpertsDownW : Site::kDownProjW,
                       .layer = 1,
                       .expert = experts ? std::optional(1) : std::nullopt};
    EXPECT_EQ(sites.weights.at(down).in, model.config().ffn);
  }
}

// What an output head reads is of its group, at every site; and there are as many groups as key heads that no output
// head joins.
TEST(ModelSitesOf, GroupsAreWhatSharesKeysOrValues) {
  for (const char* name : kGoldenCheckpoints) {
    const ModelConfig config = LoadConfig(GoldenFolder(name));
    const ModelSites sites = ModelSitesOf(config);
    const std::vector<OutputHead> table = HeadTable(config);
    for (size_t h = 0; h < table.size(); ++h) {
      const auto at = [&](Site site, int head) { return sites.GroupAt({site, 1, head}); };
      const std::optional<int> group = at(Site::kHeadOut, static_cast<int>(h));
      ASSERT_TRUE(group) << name;
      for (int map = 0; map < table[h].Maps(); ++map) {
        for (const Site site : {Site::kQ, Site::kAttnLogits, Site::kProbs})
          EXPECT_EQ(at(site, table[h].Q(map)), group) << name << ' ' << h;
        EXPECT_EQ(at(Site::kK, table[h].K(map)), group) << name << ' ' << h;
      }
      for (int slice = 0; slice < table[h].VSlices(); ++slice)
        EXPECT_EQ(at(Site::kV, table[h].v[slice]), group) << name;
    }
    EXPECT_EQ(sites.GroupAt({Site::kLayerOut, 0}), std::nullopt);
  }
  const auto groups = [](const char* name) {
    const ModelSites sites = ModelSitesOf(LoadConfig(GoldenFolder(name)));
    return sites.groups.at(Site::kQ);
  };
  EXPECT_EQ(groups("llama-gqa"), (std::vector<int>{0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(groups("diffllama-gqa"), (std::vector<int>{0, 0, 1, 1, 0, 0, 1, 1}));
  EXPECT_EQ(groups("diff-v2-gqa"), (std::vector<int>{0, 0, 0, 0, 1, 1, 1, 1}));
  EXPECT_EQ(groups("llama-mha"), (std::vector<int>{0, 1, 2, 3}));
}

}  // namespace
}  // namespace tare::sites_of_model_test
