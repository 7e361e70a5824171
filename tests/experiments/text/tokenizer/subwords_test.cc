// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/text/tokenizer/subwords.h"
#include "quant/base/message.h"
#include "quant/file/json.h"
#include "tests/support/asked_to_stop.h"
#include "tests/support/call.h"

namespace tare::subwords_test {
namespace {

using Json = nlohmann::json;
using namespace pipeline;
using pipeline::PrefixIndex;
using pipeline::Unigram;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::ThrowsMessage;

TEST(Subwords, AModelWithoutATypeIsRecognised) {
  std::vector<int32_t> ids;
  const auto bpe = nlohmann::json::parse(R"({"vocab": {"a": 0}, "merges": []})");
  ParseSubwords(bpe, WordsOf::kCharacters, "m")->Encode("a", &ids);
  const auto unigram = nlohmann::json::parse(R"({"vocab": [["a", -1.0]]})");
  ParseSubwords(unigram, WordsOf::kCharacters, "m")->Encode("a", &ids);
  EXPECT_THAT(ids, ElementsAre(0, 0));
  EXPECT_THAT(Call([] { ParseSubwords({{"type", "WordLevel"}}, WordsOf::kCharacters, "m"); }),
              ThrowsMessage<Error>(HasSubstr("m: got type WordLevel")));
  EXPECT_THAT(Call([] { ParseSubwords("x", WordsOf::kCharacters, "m"); }),
              ThrowsMessage<Error>(HasSubstr("expected an object")));
}

std::vector<int32_t> Encode(const Json& json, const std::string& word) {
  std::vector<int32_t> ids;
  Unigram(json, pipeline::WordsOf::kCharacters, "model").Encode(word, &ids);
  return ids;
}

Json Pieces(std::vector<std::pair<std::string, double>> pieces) {
  Json json{{"unk_id", 0}, {"vocab", Json::array()}};
  for (const auto& [piece, score] : pieces) json["vocab"].push_back({piece, score});
  return json;
}

TEST(Unigram, AWordEndsWhenAskedToStop) {
  const Unigram unigram(Pieces({{"<unk>", 0.0}, {"a", 0.0}}), pipeline::WordsOf::kCharacters, "model");
  std::vector<int32_t> ids;
  const AskedToStop asked;
  EXPECT_THROW(unigram.Encode("aa", &ids), Interrupted);
  EXPECT_THAT(ids, IsEmpty());  // not after its search
}

// tokenizers/src/models/unigram/model.rs, test_encode and test_encode2.
TEST(Unigram, TheLibrarysExamples) {
  const Json first = Pieces({{"<unk>", 0.0},
                             {"a", 0.0},
                             {"b", 0.0},
                             {"c", 0.0},
                             {"d", 0.0},
                             {"cd", 1.0},
                             {"ab", 2.0},
                             {"abc", 5.0},
                             {"abcd", 10.0}});
  EXPECT_THAT(Encode(first, "abcd"), ElementsAre(8));
  const Json second = Pieces({{"<unk>", 0.0},
                              {"ab", 0.0},
                              {"cd", -0.1},
                              {"abc", -0.2},
                              {"a", -0.3},
                              {"b", -0.4},
                              {"c", -0.5},
                              {"ABC", -0.5},
                              {"abcdabcd", 20.0},
                              {"q", 20.5},
                              {"r", 20.5},
                              {"qr", -0.5}});
  EXPECT_THAT(Encode(second, "abc"), ElementsAre(3));
  EXPECT_THAT(Encode(second, "AB"), ElementsAre(0));
  EXPECT_THAT(Encode(second, "abcd"), ElementsAre(1, 2));
  EXPECT_THAT(Encode(second, "abcc"), ElementsAre(3, 6));
  EXPECT_THAT(Encode(second, "xabcabaabcdd"), ElementsAre(0, 3, 1, 4, 1, 2, 0));
  EXPECT_THAT(Encode(second, "qr"), ElementsAre(9, 10));
}

TEST(Unigram, UnknownNeighboursAreOneAndMayBeBytes) {
  Json json = Pieces({{"<unk>", -1.0}, {"a", -1.0}, {"<0x78>", -1.0}, {"<0x79>", -1.0}});
  EXPECT_THAT(Encode(json, "axyxa"), ElementsAre(1, 0, 1));
  json["byte_fallback"] = true;
  EXPECT_THAT(Encode(json, "axya"), ElementsAre(1, 2, 3, 1));
  EXPECT_THAT(Encode(json, "axza"), ElementsAre(1, 0, 1));  // z has no byte
  json["unk_id"] = nullptr;
  EXPECT_THROW(Encode(json, "z"), Error);
}

TEST(Unigram, InvalidIdsAndPiecesAreRefused) {
  Json json = Pieces({{"<unk>", 0.0}, {"a", 0.0}});
  for (const char* id : {"-1", "2", "4294967296", "18446744073709551615", "0.5"}) {
    json["unk_id"] = Json::parse(id);
    EXPECT_THAT(Call([&] { Encode(json, "a"); }), ThrowsMessage<Error>(HasSubstr(std::string("unk_id: got ") + id)))
        << id;
  }
  EXPECT_THAT(Call([] { Encode(Pieces({{"<unk>", 0.0}, {std::string(5000, 'a'), 0.0}}), "a"); }),
              ThrowsMessage<Error>(HasSubstr("vocab: id 1: got 5000 bytes, expected at most 4096")));
}

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

}  // namespace tare::subwords_test
