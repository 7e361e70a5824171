// SPDX-License-Identifier: Apache-2.0
// Decoding in chunks of any size gives the logits of the whole forward pass, in every family; a fork is independent.
#include "experiments/model/attention/sequence_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "experiments/model/config/config.h"
#include "experiments/model/model.h"
#include "experiments/model/plan_run.h"
#include "quant/base/message.h"
#include "tests/support/call.h"
#include "tests/support/checkpoint.h"
#include "tests/support/compare.h"
#include "tests/support/logits.h"
#include "tests/support/random_quantized.h"

namespace tare::sequence_cache_test {
namespace {

// Vocabulary logits of the tokens, each chunk after those before it.
std::vector<float> Decoded(Model& model, SequenceCache& cache, std::span<const int32_t> tokens, size_t chunk) {
  std::vector<float> all;
  cache.ExpectPrompt(cache.tokens() + std::ssize(tokens));
  for (size_t first = 0; first < tokens.size(); first += chunk) {
    TokenBatch batch;
    batch.AddAfter(cache, 0, tokens.subspan(first, std::min(chunk, tokens.size() - first)));
    const std::vector<float> some = LogitsOf(model, batch);
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

TEST(SequenceCacheTest, DecodingEqualsTheWholePass) {
  for (const char* name : kGoldenCheckpoints) {
    Model model(GoldenFolder(name));
    const std::vector<int32_t> tokens = GoldenRows(name).front();
    TokenBatch whole;
    whole.Add(0, tokens);
    const std::vector<float> expected = LogitsOf(model, whole);
    for (const size_t chunk : {size_t{1}, size_t{5}, tokens.size()}) {
      SequenceCache cache(model.config(), {});
      EXPECT_TRUE(AllNear(Decoded(model, cache, tokens, chunk), expected, 2e-5)) << name << " by " << chunk;
      EXPECT_EQ(cache.tokens(), std::ssize(tokens));
      EXPECT_GT(cache.Bytes(), 0u);
    }
  }
}

TEST(SequenceCacheTest, SequencesOfOneBatchUseTheirOwnCaches) {
  Model model(GoldenFolder("diffllama-gqa"));
  const std::vector<std::vector<int32_t>> rows = GoldenRows("diffllama-gqa");
  SequenceCache whole(model.config(), {}), a(model.config(), {}), b(model.config(), {});
  const std::vector<float> alone = Decoded(model, whole, rows[1], 7);
  Decoded(model, a, std::span(rows[1]).first(7), 7);
  TokenBatch batch;
  batch.AddAfter(b, 0, std::span(rows[0]).first(3));
  const int64_t first = batch.AddAfter(a, 1, std::span(rows[1]).subspan(7, 7));
  const std::vector<float> both = LogitsOf(model, batch);
  const auto V = static_cast<size_t>(model.config().vocabulary);
  const std::vector<float> mine(both.begin() + first * static_cast<int64_t>(V), both.end());
  EXPECT_TRUE(AllNear(mine, std::vector<float>(alone.begin() + 7 * V, alone.begin() + 14 * V), 1e-6));
}

TEST(SequenceCacheTest, AForkIsIndependent) {
  Model model(GoldenFolder("diff-v2-gqa"));
  const std::vector<int32_t> tokens = GoldenRows("diff-v2-gqa").front();
  const std::span<const int32_t> context = std::span(tokens).first(10), mine = std::span(tokens).subspan(10, 5);
  SequenceCache cache(model.config(), {});
  Decoded(model, cache, context, 10);
  SequenceCache fork = cache, untouched = cache;
  const std::vector<int32_t> others(5, 3);
  const std::vector<float> expected = Decoded(model, untouched, mine, 5);
  Decoded(model, fork, others, 5);
  EXPECT_EQ(Decoded(model, cache, mine, 5), expected);
}

// A cache that rounds each token is the plan that rounds k and v, layer by layer.
TEST(SequenceCacheTest, EachLayerHasItsOwnFormats) {
  for (const char* name : {"llama-gqa", "diffllama-mha"}) {
    Model model(GoldenFolder(name));
    const std::vector<int32_t> tokens = GoldenRows(name).front();
    TokenBatch whole;
    whole.Add(0, tokens);
    const std::vector<float> exact = LogitsOf(model, whole);
    PlanRun run(Plan::Parse("k[l1]=int4/token,v[l0]=int6/token"), Carrying::kSimulated, ModelSitesOf(model));
    const std::vector<float> expected = LogitsOf(model, whole, run.Begin(model));
    EXPECT_FALSE(AllNear(expected, exact, 0.01)) << name;
    const CachePlan plan = ParseCachePlan("cache_k=int4/token,cache_k[l0,l2-9]=f32,cache_v[l0]=int6/token");
    SequenceCache cache(model.config(), plan);
    EXPECT_EQ(cache.Layer(0).rules().k.format, Format::kF32);
    EXPECT_EQ(cache.Layer(0).rules().v.format, Format::kInt6);
    EXPECT_EQ(cache.Layer(1).rules().k.format, Format::kInt4);
    EXPECT_EQ(cache.Layer(1).rules().v.format, Format::kF32);
    EXPECT_TRUE(AllNear(Decoded(model, cache, tokens, 1), expected, 2e-3)) << name;
  }
}

// A row of the checkpoint again and again.
std::vector<int32_t> Repeated(const std::string& name, int64_t tokens) {
  const std::vector<int32_t> row = GoldenRows(name).front();
  std::vector<int32_t> all;
  for (int64_t i = 0; i < tokens; ++i) all.push_back(row[static_cast<size_t>(i) % row.size()]);
  return all;
}

// In passes of 64 tokens, all of them among the first `of_prompt` tokens but the last, or not.
std::vector<float> DecodedBy64(Model& model, std::span<const int32_t> tokens, int64_t of_prompt) {
  SequenceCache cache(model.config(), {});
  cache.ExpectPrompt(of_prompt);
  std::vector<float> all;
  for (size_t first = 0; first < tokens.size(); first += 64) {
    TokenBatch batch;
    batch.AddAfter(cache, 0, tokens.subspan(first, std::min<size_t>(64, tokens.size() - first)));
    const std::vector<float> some = LogitsOf(model, batch);
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

// Over f32, a prompt in parts is the executed pass of all of it. Linear layers are in integers, too, so that nothing
// hangs on how many rows there are but products in f32: of a head, of a router, of a Mamba. Windows, learned sinks,
// grouped and differential heads, layers that share keys.
TEST(SequenceCacheTest, AnExecutedPromptIsTheExecutedPass) {
  const Plan plan = Plan::Parse("int8");
  for (const char* name :
       {"llama-gqa", "diffllama-gqa", "diff-v1-gqa", "diff-v2-gqa", "motif-gda", "gemma3", "gpt-oss", "phi4flash"}) {
    Model model(GoldenFolder(name));
    const ModelSites sites = ModelSitesOf(model);
    const int64_t length = std::min(150, model.config().max_positions);
    const std::vector<int32_t> tokens = Repeated(name, length - 1);
    PlanRun executed(plan, Carrying::kExecuted, sites);
    executed.Begin(model);
    TokenBatch whole;
    whole.Add(0, tokens);
    const std::vector<float> expected = LogitsOf(model, whole);
    PlanRun parts(PromptPlanOf(plan, sites, {}), sites, {});
    parts.Begin(model);
    EXPECT_TRUE(AllNear(DecodedBy64(model, tokens, length), expected, 1e-5)) << name;
    EXPECT_FALSE(AllNear(DecodedBy64(model, tokens, 0), expected, 1e-3)) << name << ": through the decode kernel";
  }
}

TEST(SequenceCacheTest, PassesSuitTheLayerWithTheFewestTokens) {
  const ModelConfig config = LoadConfig(GoldenFolder("llama-gqa"));
  const auto at_once = [&](const char* plan) { return SequenceCache(config, ParseCachePlan(plan)).TokensAtOnce(); };
  EXPECT_EQ(at_once("cache_k=int8/token,cache_k[l1]=int8/channel"), 64);
  EXPECT_EQ(at_once("cache_k[l1]=int8/token,last=3"), 1);
  EXPECT_EQ(at_once("cache_k[l1]=int8/token"), at_once(""));
}

// Turned back and again, in f32: both layouts of pairs, layers with windows.
TEST(SequenceCacheTest, PrerotaryKeysEqualRotatedOnes) {
  for (const char* name : {"diffllama-mha", "diff-v2-gqa", "gemma3"}) {
    Model model(GoldenFolder(name));
    const std::vector<int32_t> tokens = GoldenRows(name).front();
    TokenBatch whole;
    whole.Add(0, tokens);
    SequenceCache cache(model.config(), ParseCachePlan("cache_k=f32+prerotary"));
    EXPECT_TRUE(AllNear(Decoded(model, cache, tokens, 7), LogitsOf(model, whole), 1e-4)) << name;
  }
}

// A budget that is never reached drops nothing; one that is has as many keys as it says.
TEST(SequenceCacheTest, DroppingKeys) {
  Model model(GoldenFolder("diffllama-gqa"));
  std::vector<int32_t> tokens;
  const std::vector<int32_t> row = GoldenRows("diffllama-gqa").front();
  while (tokens.size() < 60) tokens.insert(tokens.end(), row.begin(), row.end());
  tokens.resize(60);
  SequenceCache all(model.config(), {});
  const std::vector<float> exact = Decoded(model, all, tokens, 60);
  for (const char* policy : {"window", "h2o", "difference", "snapkv", "snapkv-difference"}) {
    SequenceCache roomy(model.config(), ParseCachePlan(std::string("keep=") + policy + "/100"));
    EXPECT_TRUE(AllNear(Decoded(model, roomy, tokens, 12), exact, 2e-5)) << policy;
    SequenceCache small(model.config(), ParseCachePlan(std::string("keep=") + policy + "/24"));
    small.ExpectPrompt(40);
    for (size_t at = 0; at < 40;) {
      const auto count = std::min<size_t>(static_cast<size_t>(small.TokensAtOnce()), 40 - at);
      Decoded(model, small, std::span(tokens).subspan(at, count), count);
      at += count;
      if (!std::string_view(policy).starts_with("snapkv")) {
        EXPECT_LT(small.Layer(0).tokens(), 24) << policy;
      }
    }
    EXPECT_EQ(small.tokens(), 40);
    EXPECT_LE(small.Layer(0).tokens(), 24) << policy;
    EXPECT_FALSE(AllNear(Decoded(model, small, std::span(tokens).subspan(40), 5),
                         std::vector<float>(exact.begin() + 40 * model.config().vocabulary, exact.end()), 1e-3))
        << policy;
  }
  EXPECT_THROW(SequenceCache(model.config(), ParseCachePlan("keep=h2o/20,last=3")), Error);
  EXPECT_THROW(SequenceCache(Model(GoldenFolder("gemma3")).config(), ParseCachePlan("keep=h2o/20")), Error);
}

TEST(SequenceCacheTest, BudgetsInBytesAreWholePages) {
  const ModelConfig config{
      .family = "llama", .layers = 2, .heads = 2, .kv_heads = 1, .head_dim = 64, .max_positions = 10'000};
  const int64_t page = 2 * 2 * 64 * 64 * 4;  // layers, K and V, tokens, channels, bytes
  CachePlan plan;
  plan.policy.keep = {KeepPolicy::kWindow, 0, 3 * page + 1000};
  SequenceCache cache(config, plan);
  EXPECT_EQ(cache.TokensAtOnce(), 3 * 64);
  plan.policy.keep.bytes = page - 1;
  EXPECT_THROW(SequenceCache(config, plan), Error);
}

// Keys and values in eight bits: small changes, the same whatever the chunks.
TEST(SequenceCacheTest, CodesDoNotDependOnChunks) {
  Model model(GoldenFolder("diffllama-mha"));
  const std::vector<int32_t> tokens = GoldenRows("diffllama-mha").front();
  const CachePlan plan = ParseCachePlan("cache_k=int8/token,cache_v=int8/token");
  SequenceCache whole(model.config(), plan), exact(model.config(), {});
  const std::vector<float> expected = Decoded(model, whole, tokens, tokens.size());
  const std::vector<float> without = Decoded(model, exact, tokens, 4);
  EXPECT_FALSE(AllNear(expected, without, 1e-5));
  EXPECT_TRUE(AllNear(expected, without, 0.05));
  for (const size_t chunk : {1, 6}) {
    SequenceCache cache(model.config(), plan);
    // Sums of products of other numbers of rows differ by f32's rounding, which may move a code.
    EXPECT_TRUE(AllNear(Decoded(model, cache, tokens, chunk), expected, 2e-3)) << chunk;
  }
}

}  // namespace
}  // namespace tare::sequence_cache_test

namespace tare::kept_tokens_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(HeaviestKeys, FirstNewestAndTheHeaviestBetween) {
  const std::vector<float> mass{0, 5, 1, 7, 7, 2, 9, 0};
  EXPECT_THAT(HeaviestKeys(mass, 5, 1, 2), ElementsAre(0, 3, 4, 6, 7));
  EXPECT_THAT(HeaviestKeys(mass, 4, 1, 2), ElementsAre(0, 3, 6, 7));  // of equal ones the older
  EXPECT_THAT(HeaviestKeys(mass, 3, 0, 0), ElementsAre(3, 4, 6));
  EXPECT_THAT(HeaviestKeys(mass, 8, 0, 0), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

// One head of width 2 with keys along one axis or the other; a query along an axis gives those its mass. V names the
// token.
class Fixture {
 public:
  explicit Fixture(KeepRule rule) : cache({1, 2, 1, 1}, {}), kept(rule, {}) {}

  // So many tokens, of which `heavy` lie along the queries.
  void Add(int64_t count, const std::vector<int64_t>& heavy) {
    std::vector<float> k(static_cast<size_t>(2 * count), 0.0f), v(static_cast<size_t>(count)), q(k);
    const int64_t first = tokens;
    for (int64_t t = 0; t < count; ++t) {
      const bool is_heavy = std::ranges::find(heavy, first + t) != heavy.end();
      k[static_cast<size_t>(2 * t + (is_heavy ? 0 : 1))] = 8;
      q[static_cast<size_t>(2 * t)] = 1;
      v[static_cast<size_t>(t)] = static_cast<float>(tokens++);
    }
    std::vector<float> out(static_cast<size_t>(count));
    cache.Append(DenseHeads<const float>(k.data(), count, 1, 2), DenseHeads<const float>(v.data(), count, 1, 1));
    kept.Update(plan,
                {.cache = &cache,
                 .q = DenseHeads<const float>(q.data(), count, 1, 2),
                 .out = DenseHeads(out.data(), count, 1, 1)},
                cache);
  }
  std::vector<int> Kept() const {
    std::vector<int> all;
    for (int64_t t = 0; t < cache.tokens(); ++t) {
      float value = 0;
      cache.ReadValue(t, 0, &value);
      all.push_back(static_cast<int>(value));
    }
    return all;
  }

  KvCache cache;
  KeptTokens kept;
  std::vector<OutputHead> heads = StandardHeads(1, 1);
  DecodeHeads plan{heads, 1, {1, 2, 1, 1}, 1.0f};
  int64_t tokens = 0;
};

TEST(KeptTokens, WindowKeepsTheFirstFourAndTheNewest) {
  Fixture f({KeepPolicy::kWindow, 16});
  f.Add(15, {5});
  EXPECT_EQ(f.cache.tokens(), 15);
  EXPECT_EQ(f.kept.Room(f.cache), 1);
  f.Add(1, {});
  EXPECT_THAT(f.Kept(), ElementsAre(0, 1, 2, 3, 12, 13, 14, 15));
  EXPECT_EQ(f.kept.dropped(), 8);
  EXPECT_EQ(f.kept.Room(f.cache), 8);
}

TEST(KeptTokens, HeavyKeysOutliveOthersAndStayHeavy) {
  for (const KeepPolicy policy : {KeepPolicy::kH2o, KeepPolicy::kDifference}) {  // of one map the same
    Fixture f({policy, 16});
    f.Add(8, {2, 5});
    f.Add(8, {9});
    EXPECT_THAT(f.Kept(), ElementsAre(0, 2, 5, 9, 12, 13, 14, 15));
    f.Add(8, {});
    EXPECT_THAT(f.Kept(), ElementsAre(0, 2, 5, 9, 20, 21, 22, 23));
  }
}

TEST(KeptTokens, VotesAreCountedWhenThePromptEnds) {
  for (const KeepPolicy policy : {KeepPolicy::kSnapKv, KeepPolicy::kSnapKvDifference}) {  // of one map the same
    Fixture f({policy, 70});
    f.Add(50, {10});
    f.Add(50, {});
    EXPECT_EQ(f.cache.tokens(), 100);
    f.kept.EndPrompt(f.plan, f.cache);
    ASSERT_EQ(f.cache.tokens(), 70);
    const std::vector<int> kept = f.Kept();
    for (const int near : {7, 8, 9, 10, 11, 12, 13}) EXPECT_THAT(kept, testing::Contains(near));
    EXPECT_EQ(kept[70 - 32], 68);
    f.Add(30, {});
    EXPECT_EQ(f.cache.tokens(), 100);
  }
}

TEST(KeptTokens, BudgetsWithoutAChoiceAreRefused) {
  EXPECT_THAT(Call([] { KeptTokens({KeepPolicy::kH2o, 35}, {.first = 4, .last = 6}); }),
              ThrowsMessage<Error>(HasSubstr("got a budget of 35 keys, expected at least 36")));
  KeptTokens({KeepPolicy::kH2o, 36}, {.first = 4, .last = 6});
  KeptTokens({}, {.first = 4, .last = 6});
}

}  // namespace
}  // namespace tare::kept_tokens_test
