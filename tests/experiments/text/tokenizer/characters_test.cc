// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/text/tokenizer/characters.h"
#include "quant/base/message.h"
#include "quant/file/json.h"
#include "tests/support/call.h"

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

TEST(CharacterTable, DamagedTablesAreRefused) {
  EXPECT_THAT(Call([] { CharacterTable("ab!c", "t.json"); }),
              ThrowsMessage<Error>(HasSubstr("t.json: precompiled_charsmap: got text that is not base64")));
  EXPECT_THAT(Call([] { CharacterTable("AAAA", "t.json"); }),
              ThrowsMessage<Error>(HasSubstr("table of characters is damaged")));
}

TEST(CharacterTable, NoneChangesNothing) { EXPECT_EQ(CharacterTable("", "").Apply("a\xef\xac\x81"), "a\xef\xac\x81"); }

// A table of six rules.
TEST(CharacterTable, ClustersFirstThenCharacters) {
  const auto json = ReadJson(TARE_SOURCE_DIR "/tests/data/text/tokenizers/unigram-precompiled.json");
  const CharacterTable table(json["normalizer"]["normalizers"][0]["precompiled_charsmap"].get<std::string>(), "");
  EXPECT_EQ(table.Apply("\xef\xac\x81 \xe2\x91\xa0"), "fi 1");
  EXPECT_EQ(table.Apply("e\xcc\x81"), "\xc3\xa9");  // a cluster of three bytes
}

// 'a' -> "b": from the root by offset 256 to 'a', from there by 512 to its value, which is a place in `texts`.
struct Table {
  std::vector<uint32_t> units = std::vector<uint32_t>(1024);
  std::string texts = std::string("b\0", 2);

  Table() {
    units[0] = 256 << 10;
    units[256 + 'a'] = 'a' | 0x100 | 512 << 10;
    units[(256 + 'a') ^ 512] = 0x8000'0000;
  }
  std::string Bytes() const {
    const auto size = static_cast<uint32_t>(units.size() * 4);
    std::string bytes(reinterpret_cast<const char*>(&size), 4);
    bytes.append(reinterpret_cast<const char*>(units.data()), size);
    return bytes + texts;
  }
};

void Damaged(const std::string& bytes) {
  EXPECT_THAT(Call([&] { CheckCharacterMap(bytes, "M"); }),
              ThrowsMessage<Error>(HasSubstr("M: its table of characters is damaged")));
}

TEST(CharacterMap, ValidTablesAreAccepted) {
  EXPECT_NO_THROW(CheckCharacterMap("", "M"));
  EXPECT_NO_THROW(CheckCharacterMap(Table().Bytes(), "M"));
}

TEST(CharacterMap, OffsetsOutsideAreRefused) {
  Table root, child, far, value, end;
  root.units[0] = 1024 << 10;
  Damaged(root.Bytes());
  child.units[256 + 'a'] = 'a' | 4096 << 10;
  Damaged(child.Bytes());
  far.units[256 + 'a'] = 'a' | 0x200 | 512 << 10;  // the offset times 256
  Damaged(far.Bytes());
  value.units[(256 + 'a') ^ 512] = 0x8000'0002;
  Damaged(value.Bytes());
  end.texts = "bb";
  Damaged(end.Bytes());
}

TEST(CharacterMap, SizesThatDoNotFitAreDamaged) {
  const std::string whole = Table().Bytes();
  for (const size_t size : {size_t{1}, size_t{4}, size_t{100}, size_t{4 + 4096}}) Damaged(whole.substr(0, size));
  for (const char* count : {"\x00\x00\x00\x00", "\xff\xff\xff\xff", "\x03\x10\x00\x00"})
    Damaged(std::string(count, 4) + whole.substr(4));
  Table part;
  part.units.resize(512 + 100);  // not all children of a unit
  part.units[0] = 512 << 10;
  Damaged(part.Bytes());
}

TEST(CharacterMap, ValuesAreValidUtf8) {
  Table whole, stray, inside, cut;
  whole.texts = std::string("\xc3\xa9\0", 3);
  EXPECT_NO_THROW(CheckCharacterMap(whole.Bytes(), "M"));
  stray.texts = std::string("\xff\0", 2);
  Damaged(stray.Bytes());
  inside.texts = whole.texts;
  inside.units[(256 + 'a') ^ 512] = 0x8000'0001;  // at the second byte of a character
  Damaged(inside.Bytes());
  cut.texts = std::string("\xf0\x9f\0", 3);
  Damaged(cut.Bytes());
}

}  // namespace

}  // namespace tare::characters_test
