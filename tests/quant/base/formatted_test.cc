// SPDX-License-Identifier: Apache-2.0
#include "quant/base/formatted.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/error.h"

namespace tare::formatted_test {
namespace {

// /dev/full refuses every write, as a full disk does.
TEST(PutText, SaysAtOnceThatItCannotBeWritten) {
  std::fflush(stdout);
  const int before = dup(STDOUT_FILENO), full = open("/dev/full", O_WRONLY);
  dup2(full, STDOUT_FILENO);
  std::string message;
  try {
    PutText("x");
  } catch (const Error& error) {
    message = error.what();
  }
  dup2(before, STDOUT_FILENO);
  std::clearerr(stdout);
  std::fflush(stdout);
  close(before), close(full);
  EXPECT_EQ(message,
            "standard output: cannot be written: No space left on device; try freeing space, or another place for it");
}

TEST(Formatted, IsTextInStdFormatsSyntax) {
  EXPECT_EQ(Formatted("{:>5} of {}: {:.2f}", 3, std::string("eight"), 2.0 / 3), "    3 of eight: 0.67");
  EXPECT_EQ(Formatted("{{}}"), "{}");
}

// What a terminal obeys: the escape character, others below 0x20, and those from 0x7F to 0x9F in both encodings.
TEST(Printable, LeavesNothingThatATerminalObeys) {
  EXPECT_EQ(Printable("a\tb\n\x1b[31m\r\x07\x7f"), "a\tb\n\\u001b[31m\\u000d\\u0007\\u007f");
  EXPECT_EQ(Printable("\xC2\x9B"
                      "2J \x9b"
                      "2J"),
            "\\u009b2J \\u009b2J");
  // Continuation bytes of the same value are letters: a-umlaut's A4, U+015B's C5 9B, U+201B's E2 80 9B, U+1F61B.
  const std::string letters = "\u00e4 \u015b \u201b \U0001F61B \u00a0";
  EXPECT_EQ(Printable(letters), letters);
  EXPECT_EQ(Printable(std::string_view("\0", 1)), "\\u0000");
  testing::internal::CaptureStdout();
  PutText("\x1b]0;title\x07");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "\\u001b]0;title\\u0007");
  testing::internal::CaptureStderr();
  PutError("\x1b[2J");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "\\u001b[2J");
}

TEST(Formatted, PrintsToStandardOutput) {
  testing::internal::CaptureStdout();
  PrintText("{}-", 1);
  PrintLine("{:03}", 2);
  PrintLine("");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "1-002\n\n");
}

TEST(SizeTextTest, HasThreeDigits) {
  EXPECT_EQ(SizeText(0), "0 bytes");
  EXPECT_EQ(SizeText(999), "999 bytes");
  EXPECT_EQ(SizeText(1000), "1.00 KB");
  EXPECT_EQ(SizeText(386'304), "386 KB");
  EXPECT_EQ(SizeText(999'600), "1.00 MB");
  EXPECT_EQ(SizeText(9'996'000), "10.0 MB");
  EXPECT_EQ(SizeText(12'345'678'901), "12.3 GB");
  EXPECT_EQ(SizeText(5'000'000'000'000'000), "5000 TB");
}

std::vector<std::string> shown;

TEST(Notice, EachTextIsShownOnce) {
  Notice("before anybody listens");
  OnNotice([](const std::string& text) { shown.push_back(text); });
  for (const char* text : {"a", "b", "a"}) Notice(text);
  OnNotice(nullptr);
  Notice("c");
  EXPECT_THAT(shown, testing::ElementsAre("a", "b"));
}

TEST(ParseNumberTest, TakesAllOfTheTextOrNothing) {
  EXPECT_EQ(ParseNumber<int>("12"), 12);
  EXPECT_EQ(ParseNumber<int64_t>("-3"), -3);
  EXPECT_EQ(ParseNumber<double>("1e-3"), 1e-3);
  for (const char* text : {"", "x", "12x", " 12", "12 ", "+12", "1.5", "0x1"})
    EXPECT_FALSE(ParseNumber<int>(text)) << text;
}

TEST(ParseNumberTest, RefusesWhatTheTypeCannotHold) {
  EXPECT_EQ(ParseNumber<uint8_t>("255"), 255);
  EXPECT_FALSE(ParseNumber<uint8_t>("256"));
  EXPECT_FALSE(ParseNumber<uint8_t>("-1"));
  EXPECT_FALSE(ParseNumber<float>("1e39"));
}

}  // namespace
}  // namespace tare::formatted_test
