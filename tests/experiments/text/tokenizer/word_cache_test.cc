// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/word_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

namespace tare::word_cache_test {
namespace {

using pipeline::WordCache;
using testing::ElementsAre;

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
}  // namespace tare::word_cache_test
