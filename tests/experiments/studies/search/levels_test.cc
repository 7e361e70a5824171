// SPDX-License-Identifier: Apache-2.0
#include "experiments/studies/search/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "experiments/model/config/config.h"
#include "quant/base/message.h"
#include "quant/plan/plan.h"
#include "tests/support/call.h"
#include "tests/support/golden.h"

namespace tare::levels_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using Sites = std::map<Site, std::vector<std::string>>;

// The short rules, read back by the parser of plans.

std::string RuleAt(const Plan& plan, Site site, std::optional<int> layer) {
  const Rule* rule = plan.Match({site, layer, 0, 1});
  return rule == nullptr ? kUnquantized : rule->text.substr(rule->text.find('=') + 1);
}

TEST(SearchPlanText, FewRules) {
  const std::string four = "int4/channel", eight = "int8/channel";
  Sites sites;
  for (const Site site : ExpandSites("weights")) sites[site] = {four, four, four, four};
  EXPECT_EQ(ShortRules(sites), "weights=int4/channel");
  sites[Site::kDownProjW] = {eight, four, four, kUnquantized};
  EXPECT_EQ(ShortRules(sites), "weights=int4/channel,down_proj.w[l0]=int8/channel,down_proj.w[l3]=f32");
  sites[Site::kQ] = {"int6/token", "int6/token", kUnquantized, "int6/token"};
  sites[Site::kK] = {kUnquantized, "int4/token", "int4/token", kUnquantized};
  sites[Site::kLmHeadW] = {eight};
  EXPECT_EQ(ShortRules(sites),
            "weights=int4/channel,down_proj.w[l0]=int8/channel,down_proj.w[l3]=f32,q=int6/token,q[l2]=f32,"
            "k[l1-2]=int4/token,lm_head.w=int8/channel");
  EXPECT_EQ(ShortRules({{Site::kQ, {kUnquantized, kUnquantized}}}), "f32");
}

TEST(SearchPlanText, ReadsBackAsTheSame) {
  std::mt19937 random(2);
  const std::vector<std::string> of_weights{kUnquantized, "int4/channel", "int8/group64+mse"},
      of_others{kUnquantized, "int4/token", "int6/token"};
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
        const std::string expected = !inside                     ? kUnquantized
                                     : info.site == Site::kEmbed ? sites[info.site][0]
                                                                 : sites[info.site][static_cast<size_t>(layer)];
        const std::optional<int> place = info.site == Site::kEmbed ? std::nullopt : std::optional(layer);
        ASSERT_EQ(RuleAt(plan, info.site, place), expected) << plan.canonical() << " " << info.name << " " << layer;
      }
    }
  }
}

const ModelConfig& Config() {
  static const ModelConfig config = LoadConfig(GoldenFolder("diffllama-mha"));
  return config;
}

std::vector<SearchPart> PartsFor(const std::vector<const char*>& texts) {
  std::vector<Plan> plans;
  for (const char* text : texts) plans.push_back(Plan::Parse(text));
  return SearchParts(plans, Config(), 16);
}

std::vector<std::string> RulesOf(const SearchPart& part) {
  std::vector<std::string> rules;
  for (const PartLevel& level : part.levels) rules.push_back(level.rule);
  return rules;
}

TEST(SearchLevels, OfCaches) {
  const std::vector<SearchPart> parts =
      PartsFor({"cache_k=int8/token,cache_v=int8/token", "cache_k=int4/channel,cache_v=bf16"});
  ASSERT_EQ(Config().layers, 3);
  ASSERT_EQ(parts.size(), 6u);
  EXPECT_EQ(parts[0].name, "cache_k[l0]");
  EXPECT_THAT(RulesOf(parts[0]), ElementsAre("f32", "int8/token", "int4/channel"));
  EXPECT_THAT(RulesOf(parts[3]), ElementsAre("f32", "int8/token", "bf16"));
  EXPECT_EQ(parts[0].levels[2].plan.canonical(), "cache_k[l0]=int4/channel");
  EXPECT_EQ(PlanAt(parts, {2, 0, 0, 1, 1, 1}, Config()), "cache_k[l0]=int4/channel,cache_v=int8/token");
}

TEST(SearchLevels, OfEachSiteAndLayer) {
  const std::vector<SearchPart> parts =
      PartsFor({"q=int8/token,lm_head.w=int4/channel", "f32", "q=int4/token,q[l0]=int6/token,lm_head.w=int4/channel"});
  ASSERT_EQ(std::ssize(parts), Config().layers + 1);
  EXPECT_EQ(parts[0].name, "q[l0]");
  EXPECT_THAT(RulesOf(parts[0]), ElementsAre("f32", "int8/token", "int6/token"));
  EXPECT_THAT(RulesOf(parts[1]), ElementsAre("f32", "int8/token", "int4/token"));
  EXPECT_EQ(parts[1].levels[2].plan.canonical(), "q[l1]=int4/token");
  EXPECT_EQ(parts[1].levels[2].of.cost, 4 * OperandsPerToken(Site::kQ, 1, Config(), 16));
  EXPECT_EQ(parts[1].levels[0].of.cost, 16 * parts[1].operands);
  EXPECT_EQ(parts.back().name, "lm_head.w");
  EXPECT_THAT(RulesOf(parts.back()), ElementsAre("f32", "int4/channel"));
  std::vector<std::string> plans = SensitivityPlans(parts);
  EXPECT_EQ(std::ssize(plans), 1 + 2 * Config().layers + 1);
  EXPECT_EQ(plans.front(), "f32");
}

// Sites of a group that are not searched stay exact.
TEST(SearchLevels, AsAPlan) {
  const std::vector<SearchPart> parts = PartsFor({"weights=int4/channel,gate_proj.w=f32"});
  EXPECT_EQ(PlanAt(parts, std::vector<size_t>(parts.size(), 1), Config()), "weights=int4/channel,gate_proj.w=f32");
  EXPECT_EQ(PlanAt(parts, std::vector<size_t>(parts.size(), 0), Config()), "f32");
}

TEST(SearchLevels, Refused) {
  EXPECT_THAT(Call([] { PartsFor({"q[h0]=int8/token,k=int8/token"}); }),
              ThrowsMessage<Error>(HasSubstr("got heads, maps or experts")));
  EXPECT_THAT(Call([] { PartsFor({"f32"}); }), ThrowsMessage<Error>(HasSubstr("--plan: got none that quantizes")));
}

}  // namespace
}  // namespace tare::levels_test
