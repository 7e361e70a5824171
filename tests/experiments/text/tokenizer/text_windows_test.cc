// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/text_windows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "experiments/text/tokenizer/token_input.h"
#include "quant/base/error.h"
#include "tests/quant/file/temporary_folder.h"

namespace tare::text_windows_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::ThrowsMessage;

constexpr const char* kPair = TARE_SOURCE_DIR "/experiments/pair/novels-standard";

std::string LongText(const std::string& line) {
  std::string text;
  while (text.size() < kLongText) text += line + " " + std::to_string(text.size()) + "\n\n";
  return text;
}

TEST(TextWindowsTest, LongTextsOfWhichLittleIsAsked) {
  const TextPart part{.windows = 4, .positions = 512};
  EXPECT_TRUE(ReadInWindows(part, kLongText));
  EXPECT_FALSE(ReadInWindows(part, kLongText - 1));
  EXPECT_FALSE(ReadInWindows({.first = 9}, kLongText));
  // A window takes at most half of its part, at 16 bytes per token.
  EXPECT_TRUE(ReadInWindows({.windows = 1024, .positions = 512}, kLongText));
  EXPECT_FALSE(ReadInWindows({.windows = 1025, .positions = 512}, kLongText));
}

// The ids of what follows the middle of each part, from the next line on.
TEST(TextWindowsTest, BeginAtLines) {
  const Tokenizer tokenizer = Tokenizer::Load(kPair);
  const std::string text = LongText("It was a dark night; nobody went out, and the dogs slept.");
  const auto windows = EncodeWindows(tokenizer, text, {.windows = 3, .positions = 64}, "text");
  ASSERT_THAT(windows, SizeIs(3));
  for (size_t i = 0; i < 3; ++i) {
    const size_t begin = text.find("It", text.size() / 3 * (i + 1) - text.size() / 6);
    EXPECT_EQ(windows[i], tokenizer.EncodeFirst(std::string_view(text).substr(begin, 4096), 63)) << i;
  }
}

// Where no line begins near, from the next word on, or the next character.
TEST(TextWindowsTest, OfOneLine) {
  const Tokenizer tokenizer = Tokenizer::Load(kPair);
  const auto of = [&](const std::string& text) {
    return EncodeWindows(tokenizer, text, {.windows = 1, .positions = 9}, "text").at(0);
  };
  std::string words, letters;
  while (words.size() < kLongText) words += "the night was dark ";
  const size_t word = words.find(' ', words.size() - words.size() / 2) + 1;
  EXPECT_EQ(of(words), tokenizer.EncodeFirst(std::string_view(words).substr(word, 4096), 8));
  while (letters.size() < kLongText) letters += "\u00e9\u00e8\u00e7";  // of two bytes each
  letters += "a";
  EXPECT_THAT(of(letters), SizeIs(8));
}

// Parts end within characters of two bytes, and lines may be longer than parts: every window is there, and full.
TEST(TextWindowsTest, ManyOfAnyText) {
  const Tokenizer tokenizer = Tokenizer::Load(kPair);
  const std::string word = "\u00e9t\u00e9 ", line = [&] {
    std::string words;
    while (words.size() < 40000) words += word;
    return words;
  }();
  for (const std::string& repeated : {word, line + "\n", word + "\n"}) {
    std::string text = "a";
    while (text.size() < kLongText) text += repeated;
    const auto windows = EncodeWindows(tokenizer, text, {.windows = 999, .positions = 64}, "text");
    ASSERT_THAT(windows, SizeIs(999)) << repeated.size();
    for (const std::vector<int32_t>& ids : windows) ASSERT_THAT(ids, SizeIs(63));
  }
}

TEST(TextWindowsTest, BytesThatAreNoUtf8AreToldAtOnce) {
  EXPECT_THAT(
      [] {
        EncodeWindows(Tokenizer::Load(kPair), std::string(kLongText, '\x80'), {.windows = 99999, .positions = 3},
                      "text");
      },
      ThrowsMessage<Error>(HasSubstr("text: got byte 0x80 at offset 0")));
}

TEST(TextWindowsTest, OfNothingButSpacesAtTheirPlaces) {
  const std::string spaces(kLongText, ' ');
  EXPECT_THAT(EncodeWindows(Tokenizer::Load(kPair), spaces, {.windows = 2, .positions = 9}, "text"), SizeIs(0));
}

class LongInputTest : public ::testing::Test {
 protected:
  TokenInput Load(const std::string& text) {
    PutFile(folder_ / "text.txt", text);
    return LoadTokenInput(folder_ / "text.txt", kPair, 2048, {.windows = 2, .positions = 16});
  }
  TemporaryFolder folder_;
};

TEST_F(LongInputTest, IsReadInWindows) {
  const TokenInput input = Load(LongText("The old man looked at her."));
  EXPECT_TRUE(input.in_windows);
  EXPECT_FALSE(input.whole);
  EXPECT_THAT(input.sequences, ElementsAre(SizeIs(15), SizeIs(15)));
  EXPECT_THAT([&] { Load(std::string(kLongText, ' ')); }, ThrowsMessage<Error>(HasSubstr("got nothing but spaces")));
  // Where windows would stand are spaces alone: all is read.
  const TokenInput other = Load("The old man looked at her." + std::string(kLongText, ' '));
  EXPECT_FALSE(other.in_windows);
  EXPECT_TRUE(other.whole);
}

TEST_F(LongInputTest, MustBeUtf8WhereItIsRead) {
  std::string text = LongText("The old man looked at her.");
  text[0] = '\xff';
  EXPECT_THAT(Load(text).sequences, SizeIs(2));
  text[0] = 'T';
  text[text.size() / 4 + 100] = '\xff';
  EXPECT_THAT([&] { Load(text); }, ThrowsMessage<Error>(HasSubstr("text.txt: got byte 0xff")));
}

}  // namespace
}  // namespace tare::text_windows_test
