// SPDX-License-Identifier: Apache-2.0
// Compared with what the forward pass shows.
#include "experiments/model/sites_of_model.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/support/logits.h"
#include "tests/support/site_recorder.h"

namespace tare {
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
    EXPECT_EQ(sites.weights.size(), FamilyOf(model.config()).linear.size() * static_cast<size_t>(sites.layers) + 1);
    EXPECT_EQ(sites.weights.at({Site::kDownProjW, 1}).in, model.config().ffn);
  }
}

}  // namespace
}  // namespace tare
