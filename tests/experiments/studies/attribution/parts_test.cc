// SPDX-License-Identifier: Apache-2.0
#include "experiments/studies/attribution/attribution.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/model/config/config.h"
#include "experiments/model/plan_run.h"
#include "quant/base/message.h"
#include "tests/support/call.h"
#include "tests/support/golden.h"

namespace tare::parts_test {
namespace {

using ::testing::ElementsAre;

// Two layers; q of map 1 and map 2, k of both maps.
ModelSites TwoLayers() {
  ModelSites model{
      .family = "toy", .layers = 2, .maps = 2, .tied_head = false, .decodes = true, .heads = {}, .weights = {}};
  model.heads[Site::kQ] = {1, 2};
  model.heads[Site::kK] = {std::nullopt};
  model.heads[Site::kV] = {std::nullopt};
  for (const SiteInfo& info : kSites) {
    if (info.of == SiteOf::kLatent || info.of == SiteOf::kShared) model.layers_of[info.site] = {};
  }
  return model;
}

std::vector<PlanPart> Parts(const char* plan, const char* by, const ModelSites& model = TwoLayers()) {
  return PartsOf(Plan::Parse(plan), ParseGrain(by), model);
}

std::vector<std::string> Names(const std::vector<PlanPart>& parts) {
  std::vector<std::string> names;
  for (const PlanPart& part : parts) names.push_back(part.name);
  return names;
}

TEST(Parts, OfEachSiteAloneAndTakenOut) {
  const std::vector<PlanPart> parts = Parts("q=int4/token,k=int8/token+smooth,q[l1]=f32", "site");
  EXPECT_THAT(Names(parts), ElementsAre("q", "k"));
  EXPECT_EQ(parts[0].alone.canonical(), "q=int4/token,q[l1]=f32");
  EXPECT_EQ(parts[0].without.canonical(), "q=int4/token,k=int8/token+smooth,q[l1]=f32,q=f32");
  EXPECT_EQ(parts[1].alone.canonical(), "k=int8/token+smooth");
  EXPECT_EQ(parts[1].without.canonical(), "q=int4/token,k=int8/token+smooth,q[l1]=f32,k=f32");
}

// Groups are taken apart by site, and named as they are by layer; what has no layer is a part of its own.
TEST(Parts, OfGroupsAndOfWhatHasNoLayer) {
  const std::vector<PlanPart> parts = Parts("weights=int4/channel,lm_head.w=int8/channel", "layer");
  EXPECT_THAT(Names(parts), ElementsAre("outside layers", "[l0]", "[l1]"));
  EXPECT_EQ(parts[0].alone.canonical(), "lm_head.w=int8/channel");
  EXPECT_EQ(parts[0].without.canonical(), "weights=int4/channel,lm_head.w=int8/channel,lm_head.w=f32");
  EXPECT_EQ(parts[2].alone.canonical(), "weights[l1]=int4/channel");
  EXPECT_EQ(parts[2].without.canonical(), "weights=int4/channel,lm_head.w=int8/channel,weights[l1]=f32");
  const std::vector<PlanPart> by_site = Parts("weights=int4/channel,q_proj.w=grid(-1 0 1)/channel", "site,layer");
  ASSERT_EQ(by_site.size(), 14u);
  EXPECT_EQ(by_site[1].name, "q_proj.w[l1]");
  EXPECT_EQ(by_site[1].alone.canonical(), "q_proj.w[l1]=int4/channel,q_proj.w[l1]=grid(-1 0 1)/channel");
  EXPECT_EQ(by_site[2].alone.canonical(), "k_proj.w[l0]=int4/channel");
}

TEST(Parts, OfCachesAndOfListsOfLayers) {
  const std::vector<PlanPart> parts = Parts("cache_k=int4/token,cache_v=bf16,cache_k[l0]=f32", "site,layer");
  EXPECT_THAT(Names(parts), ElementsAre("cache_k[l1]", "cache_v[l0]", "cache_v[l1]"));
  EXPECT_EQ(parts[0].alone.canonical(), "cache_k[l1]=int4/token");
  EXPECT_EQ(parts[0].without.canonical(), "cache_k=int4/token,cache_v=bf16,cache_k[l0]=f32,cache_k[l1]=f32");
  ModelSites three = TwoLayers();
  three.layers = 3;
  EXPECT_EQ(Parts("q[l0,l2]=int4/token,k=int4/token", "site", three)[0].alone.canonical(), "q[l0,l2]=int4/token");
}

TEST(Parts, OfMapsAndHeads) {
  EXPECT_THAT(Names(Parts("q=int4/token,k=int4/token", "map")), ElementsAre("of both maps", "[m1]", "[m2]"));
  const std::vector<PlanPart> parts = Parts("q[l0-1]=int4/token", "site,layer,head,map");
  EXPECT_THAT(Names(parts), ElementsAre("q[l0,h0,m1]", "q[l0,h1,m2]", "q[l1,h0,m1]", "q[l1,h1,m2]"));
  const std::vector<PlanPart> by_map = Parts("q[l0-1]=int4/token", "map");
  EXPECT_EQ(by_map[1].alone.canonical(), "q[l0-1,m2]=int4/token");
  EXPECT_EQ(by_map[1].without.canonical(), "q[l0-1]=int4/token,q[m2]=f32");
}

ModelSites Golden(const char* name) { return ModelSitesOf(LoadConfig(GoldenFolder(name))); }

// Six query heads over two key heads: three query heads, a key head and a value head are one part.
TEST(Parts, OfHeadsThatShareAKeyHead) {
  const char* plan = "q=int4/token,k=int4/token,v=int4/token,weights=int8/channel";
  const std::vector<PlanPart> parts = Parts(plan, "head-group", Golden("llama-gqa"));
  ASSERT_THAT(Names(parts), ElementsAre("without heads", "[g0]", "[g1]"));
  EXPECT_EQ(parts[2].alone.canonical(), "q[h3-5]=int4/token,k[h1]=int4/token,v[h1]=int4/token");
  EXPECT_EQ(parts[1].without.canonical(), std::string(plan) + ",q[h0-2]=f32,k[h0]=f32,v[h0]=f32");
  EXPECT_THAT(Names(Parts("q[l0-1]=int4/token", "site,layer,head-group", Golden("llama-gqa"))),
              ElementsAre("q[l0,g0]", "q[l0,g1]", "q[l1,g0]", "q[l1,g1]"));
}

// Eight query heads in two maps over four key heads: heads 0 and 4 are the maps of the first output head, which reads
// key heads 0 and 2, and the values of both.
TEST(Parts, OfGroupsOfADifferentialModel) {
  const std::vector<PlanPart> parts =
      Parts("q=int4/token,k=int4/token,v=int4/token,difference=int4/row", "head-group", Golden("diffllama-gqa"));
  ASSERT_THAT(Names(parts), ElementsAre("[g0]", "[g1]"));
  EXPECT_EQ(parts[0].alone.canonical(),
            "q[h0-1,h4-5]=int4/token,k[h0,h2]=int4/token,v[h0,h2]=int4/token,difference[h0-1]=int4/row");
  EXPECT_EQ(Parts("q=int4/token", "head-group,map", Golden("diffllama-gqa"))[3].alone.canonical(),
            "q[h6-7,m2]=int4/token");
}

// A rule for some heads stays one for those; one that exempts a head goes with the group's others.
TEST(Parts, OfGroupsUnderRulesForSomeHeads) {
  const std::vector<PlanPart> parts =
      Parts("q[h1-4]=int4/token,q[h2]=f32,k=int8/token", "head-group", Golden("llama-gqa"));
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].alone.canonical(), "q[h1-2]=int4/token,q[h2]=f32,k[h0]=int8/token");
  EXPECT_EQ(parts[0].without.canonical(), "q[h1-4]=int4/token,q[h2]=f32,k=int8/token,q[h1-2]=f32,k[h0]=f32");
  EXPECT_EQ(parts[1].alone.canonical(), "q[h3-4]=int4/token,k[h1]=int8/token");
}

TEST(Parts, Refused) {
  EXPECT_THAT(Call([&] { Parts("q=int4/token", "site"); }),
              testing::ThrowsMessage<Error>(
                  testing::HasSubstr("--plan: q=int4/token has one part, q to separate, expected two parts")));
  EXPECT_THAT(Call([&] { Parts("f32", "site"); }),
              testing::ThrowsMessage<Error>(testing::HasSubstr("--plan: f32 has nothing to separate")));
  ModelSites mixed = TwoLayers();
  mixed.heads[Site::kK] = {1, std::nullopt};
  EXPECT_THAT(Call([&] { Parts("k=int4/token", "map", mixed); }),
              testing::ThrowsMessage<Error>(
                  testing::HasSubstr("got a part that no selector separates from layer 0, head 0, map 1, k")));
  for (const char* by : {"", "site,", "sites", "site,site", ",site"})
    EXPECT_THAT(
        Call([&] { ParseGrain(by); }),
        testing::ThrowsMessage<Error>(testing::HasSubstr("expected site, layer, head, head-group or map, each once")));
  EXPECT_THAT(Call([&] { ParseGrain("head,head-group"); }),
              testing::ThrowsMessage<Error>(testing::HasSubstr("expected head or head-group, not both")));
}

}  // namespace
}  // namespace tare::parts_test
