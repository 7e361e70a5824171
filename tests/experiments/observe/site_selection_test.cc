// SPDX-License-Identifier: Apache-2.0
#include "experiments/observe/site_selection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/model/plan_run.h"
#include "quant/base/error.h"

namespace tare::site_selection_test {
namespace {

using ::testing::HasSubstr;

const ModelSites kDiff = ModelSitesOf({.family = "diffllama", .layers = 4, .heads = 8, .kv_heads = 4});
const ModelSites kPlain = ModelSitesOf({.family = "llama", .layers = 4, .heads = 8, .kv_heads = 4});

std::string Refused(std::string_view text, const ModelSites& model = kDiff) {
  try {
    SiteSelection::Parse(text, model);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(SiteSelection, EmptyTextMeansAll) {
  const SiteSelection all = SiteSelection::Parse("", kDiff);
  EXPECT_EQ(all.canonical(), "all");
  for (const SiteInfo& info : kSites)
    EXPECT_EQ(all.Wants(info.site, 3), kDiff.Has(info.site) && !IsCache(info.site)) << info.name;
  EXPECT_TRUE(all.Admits({Site::kDifference, 1, 2}));
  EXPECT_FALSE(SiteSelection::Parse("", kPlain).Wants(Site::kDifference, 0));
}

TEST(SiteSelection, SelectsAsPlansDo) {
  const SiteSelection s = SiteSelection::Parse(" attn_logits[l1-2, m2], layer_out[l3],linear_in", kDiff);
  EXPECT_EQ(s.canonical(), "attn_logits[l1-2,m2],layer_out[l3],linear_in");
  EXPECT_TRUE(s.Wants(Site::kAttnLogits, 1));
  EXPECT_FALSE(s.Wants(Site::kAttnLogits, 0));
  EXPECT_TRUE(s.Admits({Site::kAttnLogits, 2, 7, 2}));
  EXPECT_FALSE(s.Admits({Site::kAttnLogits, 2, 7, 1}));
  EXPECT_FALSE(s.Wants(Site::kLayerOut, 2));
  EXPECT_TRUE(s.Wants(Site::kDownProjIn, 0));
  EXPECT_FALSE(s.Wants(Site::kEmbed, {}));
}

TEST(SiteSelection, SelectionsThatMatchNothingAreRefused) {
  EXPECT_THAT(Refused("logits"), HasSubstr("--sites 'logits'"));
  EXPECT_THAT(Refused("attn_logits[l4]"), HasSubstr("got layer 4 of attn_logits, expected 0 to 3"));
  EXPECT_THAT(Refused("k[h4]"), HasSubstr("got head 4 of k, expected 0 to 3"));
  EXPECT_THAT(Refused("difference[h4]"), HasSubstr("got head 4 of difference, expected 0 to 3"));
  EXPECT_THAT(Refused("attn_logits[m2]", kPlain), HasSubstr("got map 2 of attn_logits, expected 1 to 1"));
  EXPECT_THAT(Refused("difference", kPlain), HasSubstr("got difference, expected a site of a llama model"));
  EXPECT_THAT(Refused("cache_k"), HasSubstr("got cache_k, expected a site that forward passes show"));
  EXPECT_THAT(Refused("embed[l0]"), HasSubstr("no layers"));
  EXPECT_THAT(Refused("q=int8/row"), HasSubstr("got '='"));
  EXPECT_THAT(Refused("q,,k"), HasSubstr("--sites"));
  EXPECT_THAT(Refused("q,"), HasSubstr("--sites"));
}

}  // namespace
}  // namespace tare::site_selection_test
