// SPDX-License-Identifier: Apache-2.0
// By hand: order of merges, ties, unknown pieces, bytes, words that are pieces.
#include "experiments/text/tokenizer/subwords.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "quant/base/message.h"
#include "quant/file/json.h"
#include "tests/support/asked_to_stop.h"
#include "tests/support/call.h"

namespace tare::bpe_test {
namespace {

using pipeline::Bpe;
using pipeline::WordsOf;
using testing::ElementsAre;
using testing::ThrowsMessage;
using Json = nlohmann::json;

Bpe Parsed(const Json& model, WordsOf words = WordsOf::kCharacters) { return {model, words, "model"}; }

std::vector<int32_t> Encode(const Json& json, const std::string& word, WordsOf words = WordsOf::kCharacters) {
  std::vector<int32_t> ids;
  Parsed(json, words).Encode(word, &ids);
  return ids;
}

Json Model() {
  return {{"vocab", {{"a", 0}, {"b", 1}, {"c", 2}, {"ab", 3}, {"bc", 4}, {"abc", 5}, {"aa", 6}, {"<unk>", 7}}},
          {"merges", {"b c", "a b", "a bc", "a a"}}};
}

TEST(Bpe, TheFirstLearntMergesFirst) {
  EXPECT_THAT(Encode(Model(), "abc"), ElementsAre(5));  // b c, then a bc
  EXPECT_THAT(Encode(Model(), "ab"), ElementsAre(3));
  EXPECT_THAT(Encode(Model(), "aaa"), ElementsAre(6, 0));  // the leftmost of equals
  EXPECT_THAT(Encode(Model(), ""), ElementsAre());
}

TEST(Bpe, ALongWordEndsWhenAskedToStop) {
  const Bpe bpe = Parsed(Model());
  std::vector<int32_t> ids;
  const AskedToStop asked;
  EXPECT_THROW(bpe.Encode(std::string(1000, 'a'), &ids), Interrupted);
  EXPECT_THAT(ids, ElementsAre());  // not after its merges
}

TEST(Bpe, UnknownPieces) {
  EXPECT_THAT(Encode(Model(), "axxb"), ElementsAre(3));  // without unk_token they are dropped, and neighbours meet
  Json json = Model();
  json["unk_token"] = "<unk>";
  EXPECT_THAT(Encode(json, "axxb"), ElementsAre(0, 7, 7, 1));
  json["fuse_unk"] = true;
  EXPECT_THAT(Encode(json, "axxb"), ElementsAre(0, 7, 1));
  json["byte_fallback"] = true;
  json["vocab"]["<0x78>"] = 8;
  EXPECT_THAT(Encode(json, "axyb"), ElementsAre(0, 8, 7, 1));
}

TEST(Bpe, AWordThatIsAPieceIsTakenWhole) {
  Json json = Model();
  json["vocab"]["ba"] = 8;  // which nothing merges to
  EXPECT_THAT(Encode(json, "ba"), ElementsAre(1, 0));
  json["ignore_merges"] = true;
  EXPECT_THAT(Encode(json, "ba"), ElementsAre(8));
}

// A long word is merged part by part, and a part is no word, whichever of the two was met before.
TEST(Bpe, APartThatIsAPieceIsMerged) {
  Json json = Model();
  json["vocab"]["ba"] = 8;
  json["ignore_merges"] = true;
  const Bpe bpe = Parsed(json);
  std::string word;
  for (int i = 0; i < 100; ++i) word += "cba";  // no piece has "cb" or "ac": parts are "c" and "ba"
  for (int round = 0; round < 2; ++round) {
    std::vector<int32_t> ids;
    bpe.Encode("ba", &ids);
    bpe.Encode(word, &ids);
    ASSERT_EQ(ids.size(), 301u);
    EXPECT_EQ(ids[0], 8);
    EXPECT_THAT(std::vector<int32_t>(ids.begin() + 1, ids.begin() + 4), ElementsAre(2, 1, 0));
    EXPECT_THAT(std::vector<int32_t>(ids.end() - 3, ids.end()), ElementsAre(2, 1, 0));
  }
}

TEST(Bpe, PrefixAndSuffix) {
  const Json json = {{"vocab", {{"a", 0}, {"##b", 1}, {"ab", 2}, {"##b</w>", 3}, {"ab</w>", 4}}},
                     {"merges", {"a ##b", "a ##b</w>"}},
                     {"continuing_subword_prefix", "##"},
                     {"end_of_word_suffix", "</w>"}};
  EXPECT_THAT(Encode(json, "ab"), ElementsAre(4));
}

TEST(Bpe, Bytes) {
  const Json json = {{"vocab",
                      {{"\xc4\xa0", 0},
                       {"a", 1},
                       {"\xc4\xa0"
                        "a",
                        2}}},
                     {"merges", {"\xc4\xa0 a"}}};
  EXPECT_THAT(Encode(json, " a", WordsOf::kBytes), ElementsAre(2));  // the alphabet spells a space so
}

// Merges of pieces in any order of their ids, and several that make the same piece.
TEST(Bpe, MergesInAnyOrder) {
  Json json = Model();
  json["merges"] = {"a a", "ab c", "a b", "b c", "a bc"};
  EXPECT_THAT(Encode(json, "aaabc"), ElementsAre(6, 5));
  EXPECT_THAT(Encode(json, "bcab"), ElementsAre(4, 3));
  json["merges"] = {"b c", "a bc", "ab c", "c b"};
  EXPECT_THAT(Call([&] { Parsed(json); }),
              ThrowsMessage<Error>("model: merges: 3: got 'c' and 'b', but vocab has no 'cb'"));
}

TEST(Bpe, BothWaysToWriteAMerge) {
  Json json = Model();
  json["merges"] = {"b c", {"a", "bc"}};
  EXPECT_THAT(Encode(json, "abc"), ElementsAre(5));
}

// A pair that comes twice has the rank of its last place, and the pairs after it have their own.
TEST(Bpe, AMergeThatComesTwice) {
  Json json = Model();
  json["merges"] = {"b c", "a b", "b c"};
  EXPECT_THAT(Encode(json, "abc"), ElementsAre(3, 2));
  json["merges"] = {"b c", "b c", "a b"};
  EXPECT_THAT(Encode(json, "abc"), ElementsAre(0, 4));
}

TEST(Bpe, DamagedListsAreRefused) {
  const auto expect = [](const char* key, const std::string& list, const std::string& message) {
    Json json = Model();
    json[key] = Json::parse(list);
    EXPECT_THAT(Call([&] { Parsed(json); }), ThrowsMessage<Error>("model: " + message));
  };
  expect("vocab", R"({"a": 0, "b": 1.5})", "vocab: 'b': got 1.5, expected an id");
  expect("vocab", R"({"a": {"b": [0]}})", R"(vocab: 'a': got {"b":[0]}, expected an id)");
  expect("vocab", R"({"a": 0, "b": 0})", "vocab: got id 0 of 'a' and of 'b'");
  for (const std::string merge : {"7", R"("ab")", R"("a b c")", R"(" b")", R"(["a"])", R"(["a",""])", R"([["a"],"b"])"})
    expect("merges", R"(["a b", )" + merge + "]", "merges: 1: got " + merge + ", expected two pieces");
}

// Every pair of neighbours, of least rank, leftmost: written out, on words that are kept and that are cut.
TEST(Bpe, AsTheRuleIsWrittenOut) {
  Json json = Model();
  std::vector<std::pair<std::string, std::string>> merges{{"b", "c"}, {"a", "b"}, {"a", "bc"}, {"a", "a"}};
  std::mt19937 random(3);
  for (const size_t size : {1, 7, 60, 256, 257, 900}) {
    std::string word;
    while (word.size() < size) word += static_cast<char>('a' + random() % 3);
    std::vector<std::string> pieces;
    for (const char c : word) pieces.emplace_back(1, c);
    for (size_t rank = 0; rank < merges.size();) {
      size_t at = 0;
      while (at + 1 < pieces.size() && (pieces[at] != merges[rank].first || pieces[at + 1] != merges[rank].second))
        ++at;
      if (at + 1 >= pieces.size()) {
        ++rank;
        continue;
      }
      pieces[at] += pieces[at + 1];
      pieces.erase(pieces.begin() + static_cast<std::ptrdiff_t>(at) + 1);
      rank = 0;
    }
    std::vector<int32_t> expected;
    for (const std::string& piece : pieces) expected.push_back(json["vocab"][piece].get<int32_t>());
    EXPECT_EQ(Encode(json, word), expected) << word;
  }
}

}  // namespace
}  // namespace tare::bpe_test
