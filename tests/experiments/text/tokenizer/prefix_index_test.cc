// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/prefix_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tare::prefix_index_test {
namespace {

using pipeline::PrefixIndex;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

std::vector<std::pair<size_t, int32_t>> Prefixes(const PrefixIndex& index, std::string_view text) {
  std::vector<std::pair<size_t, int32_t>> found;
  index.ForEachPrefix(text, [&](size_t length, int32_t number) { found.emplace_back(length, number); });
  return found;
}

TEST(PrefixIndex, TheShortestFirst) {
  const PrefixIndex index({{"abc", 3}, {"a", 1}, {"ab", 2}, {"b", 4}, {"abd", 5}, {"\xff\x01", 6}});
  EXPECT_THAT(Prefixes(index, "abcd"), ElementsAre(Pair(1, 1), Pair(2, 2), Pair(3, 3)));
  EXPECT_THAT(Prefixes(index, "ab"), ElementsAre(Pair(1, 1), Pair(2, 2)));
  EXPECT_THAT(Prefixes(index, "\xff\x01\x02"), ElementsAre(Pair(2, 6)));
  EXPECT_THAT(Prefixes(index, "\xff"), IsEmpty());
  EXPECT_THAT(Prefixes(index, ""), IsEmpty());
  EXPECT_THAT(Prefixes(PrefixIndex(), "a"), IsEmpty());
}

TEST(PrefixIndex, OfEqualTextsTheSmallestNumberAndNoEmptyOnes) {
  EXPECT_THAT(Prefixes(PrefixIndex({{"a", 9}, {"", 1}, {"a", 3}, {"aa", 2}}), "aaa"),
              ElementsAre(Pair(1, 3), Pair(2, 2)));
}

}  // namespace
}  // namespace tare::prefix_index_test
