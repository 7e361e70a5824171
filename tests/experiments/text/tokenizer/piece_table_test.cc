// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/piece_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "quant/file/json.h"
#include "tests/support/call.h"

namespace tare::piece_table_test {
namespace {

using namespace pipeline;
using pipeline::PrefixIndex;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::ThrowsMessage;

TEST(PieceTable, BothWaysAndBytes) {
  PieceTable table;
  table.Add("a", 3, "t");
  table.Add("<0x0A>", 1, "t");
  EXPECT_EQ(table.Find("a"), 3);
  EXPECT_EQ(table.Find("b"), std::nullopt);
  EXPECT_EQ(table.Piece(3), "a");
  EXPECT_EQ(table.Piece(0) + table.Piece(-1) + table.Piece(4), "");
  EXPECT_EQ(table.ids(), 4);
  EXPECT_EQ(table.Bytes()[10], 1);
  EXPECT_EQ(table.Bytes()[11], -1);
  EXPECT_THAT(Call([&] { table.Add("a", 5, "t"); }), ThrowsMessage<Error>(HasSubstr("t: got 'a' with ids 3 and 5")));
  EXPECT_THAT(Call([&] { table.Add("b", 3, "t"); }), ThrowsMessage<Error>(HasSubstr("t: got id 3 of 'a' and of 'b'")));
  EXPECT_THAT(Call([&] { table.Add("b", kLargestId, "t"); }),
              ThrowsMessage<Error>(HasSubstr("expected 0 to 99999999")));
}

std::vector<std::pair<size_t, int32_t>> Prefixes(const PrefixIndex& index, std::string_view text) {
  std::vector<std::pair<size_t, int32_t>> found;
  index.ForEachPrefix(text, [&](size_t length, int32_t number) { found.emplace_back(length, number); });
  return found;
}

TEST(PrefixIndex, TheShortestFirst) {
  const PrefixIndex index({{"abc", 3}, {"a", 1}, {"ab", 2}, {"b", 4}, {"abd", 5}, {"\xff\x01", 6}}, "t");
  EXPECT_THAT(Prefixes(index, "abcd"), ElementsAre(Pair(1, 1), Pair(2, 2), Pair(3, 3)));
  EXPECT_THAT(Prefixes(index, "ab"), ElementsAre(Pair(1, 1), Pair(2, 2)));
  EXPECT_THAT(Prefixes(index, "\xff\x01\x02"), ElementsAre(Pair(2, 6)));
  EXPECT_THAT(Prefixes(index, "\xff"), IsEmpty());
  EXPECT_THAT(Prefixes(index, ""), IsEmpty());
  EXPECT_THAT(Prefixes(PrefixIndex(), "a"), IsEmpty());
  EXPECT_THAT(Prefixes(PrefixIndex({{"", 1}}, "t"), "a"), IsEmpty());
}

// As deep as the longest added token, with a branch at each byte.
TEST(PrefixIndex, EveryPrefixOfALongText) {
  constexpr size_t kLength = kLongestIndexed;
  const std::string text(kLength, 'a');
  std::vector<std::string> others;
  for (size_t length = 0; length < kLength; ++length) others.push_back(text.substr(0, length) + "b");
  std::map<std::string_view, int32_t> texts;
  for (size_t length = 1; length <= kLength; ++length) texts[std::string_view(text).substr(0, length)] = 1;
  for (const std::string& other : others) texts[other] = 2;
  EXPECT_EQ(Prefixes(PrefixIndex(texts, "t"), text).size(), kLength);
  const std::string longer = text + "a";
  texts[longer] = 7;
  EXPECT_THAT(Call([&] { PrefixIndex(texts, "t"); }),
              ThrowsMessage<Error>("t: id 7: got 4097 bytes, expected at most 4096"));
}

}  // namespace
}  // namespace tare::piece_table_test
