// SPDX-License-Identifier: Apache-2.0
// Caches of Motif-3's latents: full layers hold one latent and one rotated key for all heads, in f32 the whole pass,
// rounded what a plan simulates at the latent and a visitor at the rotated channels; bits, bytes and refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "experiments/model/attention/sequence_cache.h"
#include "experiments/model/model.h"
#include "experiments/model/plan_run.h"
#include "experiments/plan/plan_report.h"
#include "experiments/studies/search/search.h"
#include "quant/base/message.h"
#include "quant/format/round.h"
#include "tests/support/call.h"
#include "tests/support/compare.h"
#include "tests/support/golden.h"
#include "tests/support/logits.h"

namespace tare::latent_cache_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr const char *kDense = "motif3", *kRouted = "motif3-nvfp4";  // layers 0, and 0 and 3, see all keys

// Both golden rows through caches of their own, `chunk` tokens at a time: logits [row][token][V].
std::vector<float> ThroughCaches(Model& model, const std::string& name, const CachePlan& plan, int64_t chunk,
                                 SiteVisitors visitors = {}) {
  const std::vector<std::vector<int32_t>> rows = GoldenRows(name);
  std::vector<SequenceCache> caches(rows.size(), SequenceCache(model.config(), plan));
  std::vector<std::vector<float>> logits(rows.size());
  const auto tokens = std::ssize(rows[0]), V = int64_t{model.config().vocabulary};
  for (int64_t first = 0; first < tokens; first += chunk) {
    const int64_t count = std::min(chunk, tokens - first);
    TokenBatch batch;
    for (size_t i = 0; i < rows.size(); ++i)
      batch.AddAfter(caches[i], static_cast<int64_t>(i), std::span(rows[i]).subspan(first, count));
    const std::vector<float> some = LogitsOf(model, batch, visitors);
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto begin = some.begin() + static_cast<int64_t>(i) * count * V;
      logits[i].insert(logits[i].end(), begin, begin + count * V);
    }
  }
  std::vector<float> all;
  for (const std::vector<float>& row : logits) all.insert(all.end(), row.begin(), row.end());
  return all;
}

TEST(LatentCacheTest, InF32IsTheWholePass) {
  for (const char* name : {kDense, kRouted}) {
    Model model(GoldenFolder(name));
    const std::vector<float> expected = LogitsOf(model, GoldenBatch(name));
    for (const int64_t chunk : {1, 3, 100})
      EXPECT_TRUE(AllNear(ThroughCaches(model, name, {}, chunk), expected, 1e-5)) << name << " by " << chunk;
  }
}

TEST(LatentCacheTest, HoldsOneRowForAllHeads) {
  const ModelConfig c = LoadConfig(GoldenFolder(kDense));
  SequenceCache cache(c, {});
  EXPECT_EQ(cache.Layer(0).shape(), (CacheShape{1, 4, 1, 10}));
  for (int layer = 1; layer < 4; ++layer) EXPECT_EQ(cache.Layer(layer).shape(), (CacheShape{2, 12, 2, 6}));
  // As published: 576 numbers a token in full layers, 16 heads of 192 and 128 in others.
  ModelConfig published = c;
  published.kv_heads = 16, published.head_dim = 192, published.value_dim = 128, published.kv_rank = 512;
  published.rotary.share = std::nextafter(1.0 / 3, 1.0);
  const CacheShape full = CacheShapeOf(published, 0), window = CacheShapeOf(published, 1);
  EXPECT_EQ(full.k_heads * full.k_width + full.v_heads * full.v_width, 576);
  EXPECT_EQ(window.k_heads * window.k_width + window.v_heads * window.v_width, 16 * (192 + 128));
  EXPECT_EQ(CacheBytes(full, {}, 128), 4 * 128 * 576);
  EXPECT_EQ(OperandsPerToken(Site::kCacheK, 0, published, 1) + OperandsPerToken(Site::kCacheV, 0, published, 1), 576);
}

// Rounds the rotated channels of keys, the last of each head's, to int4 with a scale per token.
class RoundsTurned : public SiteVisitor {
 public:
  explicit RoundsTurned(int rotated) : rotated_(static_cast<size_t>(rotated)) {}
  bool Wants(Site site, std::optional<int> layer) const override { return site == Site::kK && layer == 0; }
  bool Changes() const override { return true; }
  void Visit(const SiteBlock& block, int) override {
    for (int64_t r = 0; r < block.rows; ++r) {
      const std::span<float> turned = block.Row(r).last(rotated_);
      float absmax = 0;
      for (const float x : turned) absmax = std::max(absmax, std::abs(x));
      const auto [inv, scale] = ScaleTo(7, absmax);
      for (float& x : turned) x = std::nearbyint(x * inv) * scale;
    }
  }

 private:
  size_t rotated_;
};

// A code that differs by the order of a sum moves a logit by some thousandths: none does here.
TEST(LatentCacheTest, RoundedAsPlansSimulateAtTheLatent) {
  for (const char* name : {kDense, kRouted}) {
    Model model(GoldenFolder(name));
    const ModelSites sites = ModelSitesOf(model);
    const TokenBatch batch = GoldenBatch(name);
    const std::vector<float> exact = LogitsOf(model, batch);
    for (const char* level : {"int8/token", "int4/token", "int6/token", "fp8e4m3/token", "nf4/token", "mxfp4"}) {
      PlanRun simulated(Plan::Parse(Formatted("kv_b_proj.in[l0]={}", level)), Carrying::kSimulated, sites);
      const std::vector<float> expected = LogitsOf(model, batch, simulated.Begin(model));
      const CachePlan caches = ParseCachePlan(Formatted("cache_v[l0]={}", level));
      for (const int64_t chunk : {1, 100})
        EXPECT_TRUE(AllNear(ThroughCaches(model, name, caches, chunk), expected, 1e-4)) << name << " " << level;
      EXPECT_FALSE(AllNear(expected, exact, 2e-4)) << name << " " << level;
    }
    RoundsTurned turned(model.config().rotary.Channels(model.config().head_dim));
    SiteVisitor* const visitors[] = {&turned};
    const std::vector<float> expected = LogitsOf(model, batch, visitors);
    EXPECT_TRUE(AllNear(ThroughCaches(model, name, ParseCachePlan("cache_k[l0]=int4/token"), 3), expected, 1e-4));
    EXPECT_FALSE(AllNear(expected, exact, 2e-4)) << name;
  }
}

// What heads read of a cache passes the sites of keys, values and the latent each time.
TEST(LatentCacheTest, OtherRulesHoldBesideIt) {
  Model model(GoldenFolder(kDense));
  const TokenBatch batch = GoldenBatch(kDense);
  for (const char* plan : {"k=int4/token,v=int6/token", "kv_b_proj.in=int4/token", "q=int8/token"}) {
    PlanRun alone(Plan::Parse(plan), Carrying::kSimulated, ModelSitesOf(model));
    const std::vector<float> expected = LogitsOf(model, batch, alone.Begin(model));
    EXPECT_TRUE(AllNear(ThroughCaches(model, kDense, {}, 5, alone.Begin(model)), expected, 1e-4)) << plan;
  }
}

// Keys: 4 rotated values of layer 0, 24 of others. Values: 10 of the latent, 12 of others.
TEST(LatentCacheTest, BitsOfWhatIsHeld) {
  const ModelSites sites = ModelSitesOf(LoadConfig(GoldenFolder(kDense)));
  const auto bits = [&](const char* plan) {
    return KeyValueBitsOf(Plan::Parse(plan), Plan::Parse(plan), sites).value();
  };
  const KeyValueBits both = bits("cache_k=int4/token,cache_v=int8/token");
  EXPECT_DOUBLE_EQ(both.keys, (4 * (4 + 32.0 / 4) + 72 * (4 + 32.0 / 12)) / 76);
  EXPECT_DOUBLE_EQ(both.values, (10 * (8 + 32.0 / 10) + 36 * (8 + 32.0 / 6)) / 46);
  const KeyValueBits latent = bits("cache_v=f32,cache_v[l0]=int4/token,k=int8/channel");
  EXPECT_DOUBLE_EQ(latent.values, (10 * (4 + 32.0 / 10) + 36 * 16) / 46);
  EXPECT_DOUBLE_EQ(latent.keys, 8);
}

TEST(LatentCacheTest, Refusals) {
  const ModelConfig c = LoadConfig(GoldenFolder(kDense));
  const ModelSites sites = ModelSitesOf(c);
  const auto refuses = [&](const char* rules, const char* why) {
    const auto run = [&] {
      const PlanRun one(
          {}, Carrying::kSimulated, sites, [](auto&&...) { return std::vector{1.0f}; }, ParseCachePlan(rules));
      SequenceCache(c, *one.cache());
    };
    EXPECT_THAT(Call(run), ThrowsMessage<Error>(HasSubstr(why))) << rules;
  };
  refuses("keep=h2o/64", "layer 0 has a latent for all heads, expected their keys; try without keep=");
  refuses("cache_v=int8/tensor+static",
          "plan rule 'cache_v=int8/tensor+static': got +static in layer 0, whose cache holds latents, expected scales");
  refuses("cache_v[l1-3]=int8/tensor+static,cache_v[l0]=int4/token+hadamard", "layer 0, cache_v: ");
  refuses("cache_k=int8/token+prerotary", "whose keys turn in their last channels");
}

}  // namespace
}  // namespace tare::latent_cache_test
