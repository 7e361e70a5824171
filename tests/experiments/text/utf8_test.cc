// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/utf8.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "tests/support/asked_to_stop.h"
#include "tests/support/call.h"

namespace tare::utf8_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::string Encoded(char32_t value) {
  std::string text;
  Append(value, &text);
  return text;
}

char32_t First(std::string_view text) {
  size_t at = 0;
  return Next(text, &at);
}

TEST(Utf8, EveryCharacterRoundTrips) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    const std::string text = Encoded(c);
    const bool surrogate = c >= 0xd800 && c < 0xe000;
    ASSERT_EQ(FindInvalidUtf8(text).has_value(), surrogate) << std::hex << static_cast<uint32_t>(c);
    ASSERT_EQ(First(text), c);
    ASSERT_EQ(CountCharacters(text), 1u);
  }
}

TEST(Utf8, EndsWhenAskedToStop) {
  const AskedToStop asked;
  EXPECT_THROW(FindInvalidUtf8("a"), Interrupted);
}

// Every string of up to two bytes, and of three and four with a lead byte that announces them, is valid exactly where
// it is the encoding of a character.
TEST(Utf8, NothingElseIsValid) {
  for (unsigned a = 0; a < 256; ++a) {
    const std::string one(1, static_cast<char>(a));
    EXPECT_EQ(!FindInvalidUtf8(one), a < 0x80);
    for (unsigned b = 0; b < 256; ++b) {
      const std::string two = one + static_cast<char>(b);
      const bool pair = a >= 0xc2 && a < 0xe0 && b >= 0x80 && b < 0xc0;
      ASSERT_EQ(!FindInvalidUtf8(two), (a < 0x80 && b < 0x80) || pair) << a << " " << b;
      if (a < 0xe0) continue;
      for (const char third : {'\x7f', '\x80', '\xbf', '\xc0'}) {
        const std::string three = two + third, four = three + '\x80';
        ASSERT_EQ(!FindInvalidUtf8(three), three == Encoded(First(three)) && a < 0xf0 && !(a == 0xed && b >= 0xa0))
            << a << " " << b;
        ASSERT_EQ(!FindInvalidUtf8(four) && a >= 0xf0,
                  a >= 0xf0 && a < 0xf5 && First(four) < 0x110000 && four == Encoded(First(four)))
            << a << " " << b;
      }
    }
  }
}

TEST(Utf8, TheFirstBadByteIsNamed) {
  EXPECT_EQ(FindInvalidUtf8("ab\xc3\xa9\x80"), 4u);
  EXPECT_EQ(FindInvalidUtf8("ab\xe2\x96"), 2u);         // cut short
  EXPECT_EQ(FindInvalidUtf8("\xc0\xaf"), 0u);           // overlong
  EXPECT_EQ(FindInvalidUtf8("a\xed\xa0\x80"), 1u);      // a surrogate
  EXPECT_EQ(FindInvalidUtf8("a\xf4\x90\x80\x80"), 1u);  // above U+10FFFF
  EXPECT_EQ(FindInvalidUtf8("a\xf8\x88\x80\x80\x80"), 1u);
  EXPECT_EQ(FindInvalidUtf8(std::string_view("\0a", 2)), std::nullopt);
  EXPECT_THAT(Call([] { RequireUtf8("one\ntwo\nthr\xff", "f.txt"); }),
              ThrowsMessage<Error>(HasSubstr("f.txt: got byte 0xff at offset 11 (line 3)")));
}

TEST(Utf8, CountsAsPythonsLen) {
  EXPECT_EQ(CountCharacters(""), 0u);
  EXPECT_EQ(CountCharacters("na\u00efve"), 5u);
  EXPECT_EQ(CountCharacters("e\u0301"), 2u);
  EXPECT_EQ(CountCharacters("\U0001f600\u3000x"), 3u);
}

TEST(Utf8, StripsWhatPythonStrips) {
  int stripped = 0;
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xd800 && c < 0xe000) continue;
    const std::string text = "x" + Encoded(c);
    stripped += StripRight(text) == "x";
    ASSERT_EQ(Strip(Encoded(c)).empty(), StripRight(text) == "x");
  }
  EXPECT_EQ(stripped, 29);  // sum(chr(c).isspace() for c in range(0x110000))
  EXPECT_EQ(StripRight(" a \t\u2003\u0085\n"), " a");
  EXPECT_EQ(Strip("\u3000 a b\x1f\u00a0"), "a b");
  EXPECT_EQ(Strip("\u200b\ufeff\u180e"), "\u200b\ufeff\u180e");  // not whitespace to Python
  EXPECT_EQ(Strip(" \n"), "");
}

}  // namespace
}  // namespace tare::utf8_test
