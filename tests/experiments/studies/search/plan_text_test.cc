// SPDX-License-Identifier: Apache-2.0
// What the rules say, read back by the parser of plans.
#include "experiments/studies/search/plan_text.h"

#include <gtest/gtest.h>

#include <random>

#include "quant/plan/plan.h"

namespace tare {
namespace {

using Sites = std::map<Site, std::vector<std::string>>;

std::string RuleAt(const Plan& plan, Site site, std::optional<int> layer) {
  const Rule* rule = plan.Match({site, layer, 0, 1});
  return rule == nullptr ? kExact : rule->text.substr(rule->text.find('=') + 1);
}

TEST(SearchPlanText, FewRules) {
  const std::string four = "int4/channel", eight = "int8/channel";
  Sites sites;
  for (const Site site : ExpandSites("weights")) sites[site] = {four, four, four, four};
  EXPECT_EQ(ShortRules(sites), "weights=int4/channel");
  sites[Site::kDownProjW] = {eight, four, four, kExact};
  EXPECT_EQ(ShortRules(sites), "weights=int4/channel,down_proj.w[l0]=int8/channel,down_proj.w[l3]=f32");
  sites[Site::kQ] = {"int6/token", "int6/token", kExact, "int6/token"};
  sites[Site::kK] = {kExact, "int4/token", "int4/token", kExact};
  sites[Site::kLmHeadW] = {eight};
  EXPECT_EQ(ShortRules(sites),
            "weights=int4/channel,down_proj.w[l0]=int8/channel,down_proj.w[l3]=f32,q=int6/token,q[l2]=f32,"
            "k[l1-2]=int4/token,lm_head.w=int8/channel");
  EXPECT_EQ(ShortRules({{Site::kQ, {kExact, kExact}}}), "f32");
}

TEST(SearchPlanText, ReadsBackAsTheSame) {
  std::mt19937 random(2);
  const std::vector<std::string> of_weights{kExact, "int4/channel", "int8/group64+mse"},
      of_others{kExact, "int4/token", "int6/token"};
  const auto pick = [&](const std::vector<std::string>& values, int distinct) {
    return values[random() % static_cast<unsigned>(distinct)];
  };
  for (int trial = 0; trial < 300; ++trial) {
    const int distinct = 1 + trial % 3, layers = 1 + trial % 7;
    Sites sites;
    const auto fill = [&](Site site, const std::vector<std::string>& values) {
      for (int layer = 0; layer < layers; ++layer) sites[site].push_back(pick(values, distinct));
    };
    if (trial % 2 == 0) std::ranges::for_each(ExpandSites("weights"), [&](Site site) { fill(site, of_weights); });
    if (trial % 3 == 0) std::ranges::for_each(ExpandSites("linear_in"), [&](Site site) { fill(site, of_others); });
    for (const Site site : {Site::kQ, Site::kK, Site::kV, Site::kLayerOut}) fill(site, of_others);
    sites[Site::kEmbed] = {pick(of_others, distinct)};
    const Plan plan = Plan::Parse(ShortRules(sites));
    for (const SiteInfo& info : kSites) {
      for (int layer = 0; layer < layers; ++layer) {
        const bool inside = sites.contains(info.site);
        const std::string expected = !inside                     ? kExact
                                     : info.site == Site::kEmbed ? sites[info.site][0]
                                                                 : sites[info.site][static_cast<size_t>(layer)];
        const std::optional<int> place = info.site == Site::kEmbed ? std::nullopt : std::optional(layer);
        ASSERT_EQ(RuleAt(plan, info.site, place), expected) << plan.canonical() << " " << info.name << " " << layer;
      }
    }
  }
}

}  // namespace
}  // namespace tare
