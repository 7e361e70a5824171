// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/characters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "quant/file/json.h"

namespace tare::characters_test {
namespace {

using namespace pipeline;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

TEST(Characters, Classes) {
  EXPECT_TRUE(IsWhitespace(0x85) && IsWhitespace(0x3000) && !IsWhitespace(0x180e) && !IsWhitespace(0x200b));
  EXPECT_TRUE(IsNumeric(0xbd) && IsNumeric(0x2167) && !IsNumeric('a'));
  EXPECT_TRUE(IsPunctuation('$') && IsPunctuation('~') && IsPunctuation(0x3001) && !IsPunctuation(0x20ac) &&
              !IsPunctuation('a'));
  EXPECT_FALSE(IsPunctuation(0x2e52));  // P since Unicode 14
  EXPECT_TRUE(IsWord('_') && IsWord(0x301) && IsWord(0x200d) && !IsWord('-'));
}

TEST(Characters, LowerCaseIsCharacterByCharacter) {
  EXPECT_EQ(Lowercase("\xc4\xb0\xce\xa3"), "i\xcc\x87\xcf\x83");  // no final sigma
}

TEST(Characters, NormalFormsAreOfUnicode11) {
  EXPECT_EQ(Normalize("e\xcc\x81", NormalForm::kNfc), "\xc3\xa9");
  EXPECT_EQ(Normalize("\xef\xac\x81", NormalForm::kNfkd), "fi");
  EXPECT_EQ(Normalize("\xef\xac\x81", NormalForm::kNfd), "\xef\xac\x81");
  EXPECT_EQ(Normalize("\xe3\x8b\xbf", NormalForm::kNfkc), "\xe3\x8b\xbf");  // U+32FF, of Unicode 12.1
}

TEST(Characters, NextAndPrevious) {
  const std::string text = "a\xc3\xa4\xe6\x97\xa5\xf0\x9f\x98\x80";
  std::vector<char32_t> forth, back;
  for (size_t at = 0; at < text.size();) forth.push_back(Next(text, &at));
  for (size_t at = text.size(); at > 0;) back.insert(back.begin(), Previous(text, &at));
  EXPECT_THAT(forth, ElementsAre(U'a', 0xe4, 0x65e5, 0x1f600));
  EXPECT_EQ(back, forth);
  std::vector<std::string> clusters;
  ForEachCluster("e\xcc\x81x", [&](std::string_view cluster) { clusters.emplace_back(cluster); });
  EXPECT_THAT(clusters, ElementsAre("e\xcc\x81", "x"));
  EXPECT_EQ(Lossy("a\xff\xe6\x97"
                  "b"),
            "a\xef\xbf\xbd\xef\xbf\xbd"
            "b");
}

TEST(ByteLevel, EveryByteRoundTrips) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes += static_cast<char>(byte);
  EXPECT_EQ(FromAlphabet(ToAlphabet(bytes)), bytes);
  EXPECT_EQ(ToAlphabet(" \n"), "\xc4\xa0\xc4\x8a");
  EXPECT_EQ(ToAlphabet("\xad"), "\xc5\x83");  // the last of those moved
  EXPECT_EQ(FromAlphabet("a b"), std::nullopt);
  EXPECT_EQ(FromAlphabet("\xe6\x97\xa5"), std::nullopt);
}

}  // namespace
}  // namespace tare::characters_test
