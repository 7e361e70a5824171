// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/bpe_tables.h"

#include <map>
#include <random>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tare::bpe_tables_test {
namespace {

using pipeline::Merge;
using pipeline::MergeTable;
using pipeline::WordCache;
using testing::ElementsAre;

TEST(MergeTable, HasNothingAtFirst) {
  EXPECT_EQ(MergeTable().Find(0, 0), nullptr);
  EXPECT_EQ(MergeTable(0).Find(0, 0), nullptr);
}

// Full, with pairs that share a side, against a map.
TEST(MergeTable, EveryPairAndNoOther) {
  std::mt19937 random(3);
  constexpr int32_t kIds = 60, kMerges = 2000;
  MergeTable table(kMerges);
  std::map<std::pair<int32_t, int32_t>, int32_t> expected;
  for (int32_t rank = 0; rank < kMerges; ++rank) {
    const auto left = static_cast<int32_t>(random() % kIds), right = static_cast<int32_t>(random() % kIds);
    table.Set(left, right, {rank, rank + 1});
    expected[{left, right}] = rank;  // the last counts
  }
  for (int32_t left = 0; left < kIds; ++left) {
    for (int32_t right = 0; right < kIds; ++right) {
      const auto found = expected.find({left, right});
      const Merge* const merge = table.Find(left, right);
      ASSERT_EQ(merge != nullptr, found != expected.end());
      if (merge == nullptr) continue;
      EXPECT_EQ(merge->rank, found->second);
      EXPECT_EQ(merge->id, found->second + 1);
    }
  }
}

TEST(Neighbours, SmallAndLargeCharactersInTheirOrder) {
  pipeline::Neighbours neighbours;
  neighbours.Add('a', 'b');
  neighbours.Add(255, 0);
  neighbours.Add('a', 0x162);  // 'b' and a higher byte
  neighbours.Add(0x10ffff, 'a');
  EXPECT_TRUE(neighbours.Has('a', 'b') && neighbours.Has(255, 0));
  EXPECT_TRUE(neighbours.Has('a', 0x162) && neighbours.Has(0x10ffff, 'a'));
  EXPECT_FALSE(neighbours.Has('b', 'a') || neighbours.Has(0, 255));
  EXPECT_FALSE(neighbours.Has(0x162, 'a') || neighbours.Has('a', 0x10ffff) || neighbours.Has('a', 0x161));
}

std::vector<int32_t> Found(const WordCache& cache, std::string_view word) {
  std::vector<int32_t> ids{-7};
  if (!cache.Find(word, &ids)) ids.push_back(-1);
  return ids;
}

TEST(WordCache, AppendsTheIdsOfTheWordAlone) {
  WordCache cache;
  EXPECT_THAT(Found(cache, ""), ElementsAre(-7, -1));
  EXPECT_THAT(Found(cache, "a"), ElementsAre(-7, -1));
  cache.Keep("a", std::vector<int32_t>{5, 6, 7});
  cache.Keep(std::string(15, 'x'), std::vector<int32_t>{8});
  cache.Keep("none", {});
  EXPECT_THAT(Found(cache, "a"), ElementsAre(-7, 5, 6, 7));
  EXPECT_THAT(Found(cache, std::string(15, 'x')), ElementsAre(-7, 8));
  EXPECT_THAT(Found(cache, "none"), ElementsAre(-7));
  EXPECT_THAT(Found(cache, std::string_view("a\0", 2)), ElementsAre(-7, -1));
}

TEST(WordCache, LeavesOutLongWordsManyIdsAndNothing) {
  WordCache cache;
  cache.Keep(std::string(16, 'x'), std::vector<int32_t>{1});
  cache.Keep("four", std::vector<int32_t>{1, 2, 3, 4});
  cache.Keep("", std::vector<int32_t>{1});
  EXPECT_THAT(Found(cache, std::string(16, 'x')), ElementsAre(-7, -1));
  EXPECT_THAT(Found(cache, "four"), ElementsAre(-7, -1));
  EXPECT_THAT(Found(cache, ""), ElementsAre(-7, -1));
}

// Far more words than places: each is found with its own ids or not at all, and the last always.
TEST(WordCache, WordsInOnePlaceDoNotMix) {
  WordCache cache;
  std::mt19937 random(11);
  const auto word = [](int32_t n) { return "w" + std::to_string(n); };
  for (int round = 0; round < 200'000; ++round) {
    const auto n = static_cast<int32_t>(random() % 100'000);
    std::vector<int32_t> ids;
    if (cache.Find(word(n), &ids)) {
      ASSERT_THAT(ids, ElementsAre(n, n + 1));
    }
    cache.Keep(word(n), std::vector<int32_t>{n, n + 1});
    ASSERT_THAT(Found(cache, word(n)), ElementsAre(-7, n, n + 1));
  }
}

}  // namespace
}  // namespace tare::bpe_tables_test
