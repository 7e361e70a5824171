// SPDX-License-Identifier: Apache-2.0
#include "quant/plan/site.h"

#include <algorithm>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tare::site_test {
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

TEST(Site, GroupsAreTheProjections) {
  EXPECT_THAT(Names(ExpandSites("weights")),
              testing::ElementsAre("q_proj.w", "k_proj.w", "v_proj.w", "q_a_proj.w", "kv_a_proj.w", "q_b_proj.w",
                                   "attn_gate_proj.w", "kv_b_proj.w", "o_proj.w", "gate_proj.w", "up_proj.w",
                                   "down_proj.w", "mamba.in_proj.w", "mamba.x_proj.w", "mamba.dt_proj.w",
                                   "mamba.out_proj.w", "mixer_1.in_proj.w", "mixer_1.out_proj.w", "mixer_2.in_proj.w",
                                   "mixer_2.out_proj.w", "gmu.in_proj.w", "gmu.out_proj.w", "shared.gate.w",
                                   "shared.up.w", "shared.down.w", "experts.gate_up.w", "experts.down.w"));
  EXPECT_THAT(
      Names(ExpandSites("linear_in")),
      testing::ElementsAre("q_proj.in", "k_proj.in", "v_proj.in", "q_a_proj.in", "kv_a_proj.in", "q_b_proj.in",
                           "attn_gate_proj.in", "kv_b_proj.in", "o_proj.in", "gate_proj.in", "up_proj.in",
                           "down_proj.in", "mamba.in_proj.in", "mamba.x_proj.in", "mamba.dt_proj.in",
                           "mamba.out_proj.in", "mixer_1.in_proj.in", "mixer_1.out_proj.in", "mixer_2.in_proj.in",
                           "mixer_2.out_proj.in", "gmu.in_proj.in", "gmu.out_proj.in", "shared.gate.in", "shared.up.in",
                           "shared.down.in", "experts.gate_up.in", "experts.down.in"));
}

TEST(Site, MixersAreAMambaAndBothOfAPair) {
  EXPECT_THAT(Names(ExpandSites("mixer.scan.b")), testing::ElementsAre("scan.b", "mixer_1.scan.b", "mixer_2.scan.b"));
  EXPECT_THAT(Names(ExpandSites("mixer.gate")), testing::ElementsAre("mamba.gate", "mixer_1.gate", "mixer_2.gate"));
  EXPECT_THAT(Names(ExpandSites("mixer.out")), testing::ElementsAre("mixer_1.out", "mixer_2.out"));
  EXPECT_TRUE(ExpandSites("mixer.x_proj.w").empty());
  EXPECT_THAT(Names(ExpandSites("mixer.in_proj.w")),
              testing::ElementsAre("mamba.in_proj.w", "mixer_1.in_proj.w", "mixer_2.in_proj.w"));
}

// Every column of a row: what reads the table needs no other list of sites.
TEST(Site, EveryWeightHasAnInputOfItsOwnInTheSamePart) {
  std::set<Site> inputs;
  for (const SiteInfo& info : kSites) {
    EXPECT_EQ(IsWeight(info.site), info.name.ends_with(".w")) << info.name;
    if (!IsWeight(info.site)) continue;
    const Site input = InputOf(info.site);
    EXPECT_TRUE(inputs.insert(input).second) << info.name;
    EXPECT_EQ(WeightOf(input), info.site) << info.name;
    EXPECT_EQ(Info(input).of, info.of) << info.name;
    EXPECT_EQ(Name(input), std::string(info.name.substr(0, info.name.size() - 2)) + ".in");
  }
  for (const SiteInfo& info : kSites)
    EXPECT_EQ(WeightOf(info.site).has_value(), info.name.ends_with(".in") && !info.name.ends_with("scan.in"))
        << info.name;
}

TEST(Site, OtherNamesAreUnknown) {
  for (const char* name : {"", "weight", "logits", "Q", "q ", "q_proj", "q_proj.out", "embed.w"}) {
    EXPECT_FALSE(ParseSite(name)) << name;
    EXPECT_TRUE(ExpandSites(name).empty()) << name;
  }
  EXPECT_FALSE(ParseSite("weights"));
}

// Statistics files hold their rows in this order.
TEST(SiteKey, KeysWithoutHeadOrMapComeFirst) {
  EXPECT_LT((SiteKey{Site::kQ, 0}), (SiteKey{Site::kQ, 0, 0}));
  EXPECT_LT((SiteKey{Site::kQ, 0, 1}), (SiteKey{Site::kQ, 0, 1, 1}));
  EXPECT_LT((SiteKey{Site::kQ, 0, 1, 2}), (SiteKey{Site::kQ, 0, 2}));
  EXPECT_LT((SiteKey{Site::kQ, 0, 9, 2}), (SiteKey{Site::kQ, 1}));
  EXPECT_LT((SiteKey{Site::kQ}), (SiteKey{Site::kQ, 0}));
}

TEST(SiteKey, TextNamesWhatThereIs) {
  EXPECT_EQ(TextOf({Site::kEmbed}), "embed");
  EXPECT_EQ(TextOf({Site::kUpProjW, 3}), "layer 3, up_proj.w");
  EXPECT_EQ(TextOf({Site::kQ, 3, 1, 2}), "layer 3, head 1, map 2, q");
}

using Kind = Granularity::Kind;

bool Admits(Site site, Kind kind) { return std::ranges::contains(ClassOf(site).granularities, kind); }

// Maps are made and used a block of rows at a time; the one scale of probs is fixed.
TEST(SiteClass, EverySiteButDifferencesCanShareOneScale) {
  for (const SiteInfo& info : kSites)
    EXPECT_EQ(Admits(info.site, Kind::kTensor), info.site != Site::kDifference) << info.name;
}

TEST(SiteClass, AGroupIsOfOneClass) {
  for (const char* group : {"weights", "linear_in"}) {
    const std::span<const Site> sites = ExpandSites(group);
    const SiteClass& first = ClassOf(sites.front());
    for (const Site site : sites) {
      const SiteClass& other = ClassOf(site);
      // A rule of the group selects no heads, where a site has them.
      EXPECT_EQ(other.dimensions, site == Site::kExpertsDownIn          ? "lh"
                                  : IsWeight(site) && IsOfExperts(site) ? "le"
                                                                        : first.dimensions)
          << group;
      EXPECT_EQ(other.options, first.options) << group;
      EXPECT_TRUE(std::ranges::equal(other.granularities, first.granularities)) << group;
      EXPECT_TRUE(std::ranges::equal(other.formats, first.formats)) << group;
    }
  }
}

TEST(SiteClass, AScalePerHeadNeedsHeads) {
  for (const SiteInfo& info : kSites) {
    EXPECT_TRUE(!Admits(info.site, Kind::kHead) || ClassOf(info.site).dimensions.contains('h')) << info.name;
    EXPECT_EQ(Admits(info.site, Kind::kHeads), info.site == Site::kLambda || info.site == Site::kAttnGate) << info.name;
  }
}

TEST(SiteClass, OnlyProbabilitiesAndSigmoidsAreNeverNegative) {
  for (const SiteInfo& info : kSites)
    EXPECT_EQ(Info(ClassOf(info.site).formats.front()).min_code == 0,
              info.site == Site::kProbs || info.site == Site::kAttnGate || info.site == Site::kLambda)
        << info.name;
}

// Pages hold bf16 and codes of at most 8 bits whose blocks a panel can decode.
TEST(SiteClass, CachesAloneTakeBf16AndNoSixBits) {
  for (const SiteInfo& info : kSites) {
    EXPECT_EQ(ClassOf(info.site).Takes(Format::kBf16), IsCache(info.site)) << info.name;
    EXPECT_NE(ClassOf(info.site).Takes(Format::kMxFp6E2M3), IsCache(info.site)) << info.name;
    EXPECT_TRUE(ClassOf(info.site).Takes(Format::kF32)) << info.name;
  }
}

TEST(SiteClass, MapsBelongToWhatEachMapHas) {
  const std::set<Site> of_maps{Site::kQNorm, Site::kKNorm, Site::kQ, Site::kK, Site::kAttnLogits, Site::kProbs};
  for (const SiteInfo& info : kSites)
    EXPECT_EQ(ClassOf(info.site).dimensions.contains('m'), of_maps.contains(info.site)) << info.name;
}

}  // namespace
}  // namespace tare::site_test
