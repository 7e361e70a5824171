// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/attention/kept_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/error.h"
#include "tests/support/call.h"
#include "tests/support/random_quantized.h"

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
