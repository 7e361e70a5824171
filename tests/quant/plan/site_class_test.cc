// SPDX-License-Identifier: Apache-2.0
#include "quant/plan/site_class.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <span>
#include <string_view>

namespace tare::site_class_test {
namespace {

using Kind = Granularity::Kind;

bool Admits(Site site, Kind kind) { return std::ranges::contains(ClassOf(site).granularities, kind); }

// Maps are made and used a block of rows at a time.
TEST(SiteClass, EverySiteButMapsAndCachesCanShareOneScale) {
  const std::set<Site> of_rows{Site::kProbs, Site::kDifference, Site::kCacheK, Site::kCacheV};
  for (const SiteInfo& info : kSites)
    EXPECT_EQ(Admits(info.site, Kind::kTensor), !of_rows.contains(info.site)) << info.name;
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
    EXPECT_EQ(ClassOf(info.site).NeverNegative(),
              info.site == Site::kProbs || info.site == Site::kAttnGate || info.site == Site::kLambda)
        << info.name;
}

// Pages hold bf16 and integers, no grids.
TEST(SiteClass, CachesAloneTakeBf16AndNoGrid) {
  for (const SiteInfo& info : kSites) {
    EXPECT_EQ(ClassOf(info.site).Takes(Format::kBf16), IsCache(info.site)) << info.name;
    EXPECT_NE(ClassOf(info.site).Takes(Format::kMxFp4), IsCache(info.site)) << info.name;
    EXPECT_TRUE(ClassOf(info.site).Takes(Format::kF32)) << info.name;
  }
}

TEST(SiteClass, MapsBelongToWhatEachMapHas) {
  const std::set<Site> of_maps{Site::kQNorm, Site::kKNorm, Site::kQ, Site::kK, Site::kAttnLogits, Site::kProbs};
  for (const SiteInfo& info : kSites)
    EXPECT_EQ(ClassOf(info.site).dimensions.contains('m'), of_maps.contains(info.site)) << info.name;
}

}  // namespace
}  // namespace tare::site_class_test
