// SPDX-License-Identifier: Apache-2.0
#include "quant/plan/site.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace tare {
namespace {

std::vector<std::string> Names(std::span<const Site> sites) {
  std::vector<std::string> names;
  for (const Site site : sites) names.emplace_back(Name(site));
  return names;
}

TEST(Site, EveryNameParsesToItsSiteAndExpandsToItself) {
  std::set<std::string_view> names;
  for (const SiteInfo& info : kSites) {
    EXPECT_EQ(ParseSite(info.name), info.site);
    EXPECT_EQ(Name(info.site), info.name);
    EXPECT_THAT(ExpandSites(info.name), testing::ElementsAre(info.site));
    names.insert(info.name);
  }
  EXPECT_EQ(names.size(), kSites.size());
}

TEST(Site, NamesOfTheForwardPassArePresent) {
  for (const char* name : {"embed", "q", "k", "v", "attn_logits", "probs", "difference", "head_out", "attn_out",
                           "layer_out", "final_norm", "lm_head.w", "lm_head.in"}) {
    EXPECT_TRUE(ParseSite(name)) << name;
  }
}

TEST(Site, GroupsAreTheSevenProjections) {
  EXPECT_THAT(Names(ExpandSites("weights")), testing::ElementsAre("q_proj.w", "k_proj.w", "v_proj.w", "o_proj.w",
                                                                  "gate_proj.w", "up_proj.w", "down_proj.w"));
  EXPECT_THAT(Names(ExpandSites("linear_in")), testing::ElementsAre("q_proj.in", "k_proj.in", "v_proj.in", "o_proj.in",
                                                                    "gate_proj.in", "up_proj.in", "down_proj.in"));
}

TEST(Site, OtherNamesAreNone) {
  for (const char* name : {"", "weight", "logits", "Q", "q ", "q_proj", "q_proj.out", "embed.w"}) {
    EXPECT_FALSE(ParseSite(name)) << name;
    EXPECT_TRUE(ExpandSites(name).empty()) << name;
  }
  EXPECT_FALSE(ParseSite("weights"));
}

}  // namespace
}  // namespace tare
