// SPDX-License-Identifier: Apache-2.0
#include "quant/base/message.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/parallel.h"
#include "tests/support/call.h"

namespace tare::message_test {
namespace {

TEST(Error, FailFormatsItsMessage) {
  try {
    Fail("shape: got {} x {}, expected {}", 2, 3, "2 x 4");
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "shape: got 2 x 3, expected 2 x 4");
    return;
  }
  ADD_FAILURE() << "nothing was thrown";
}

TEST(ErrorDeathTest, CheckAbortsAndNamesTheCondition) {
  const int three = 3;
  TARE_CHECK(three == 3);
  EXPECT_DEATH(TARE_CHECK(three == 4), "message_test.cc:[0-9]+: internal error: three == 4 does not hold");
}

// A stop cannot be withdrawn, so each is requested in a separate process.
TEST(Interrupt, NothingIsThrownUnlessAStopWasRequested) { EXPECT_NO_THROW(ThrowIfStopped()); }

[[noreturn]] void StopBySignal() {
  std::signal(SIGINT, [](int) { RequestStop(); });
  std::raise(SIGINT);
  try {
    ThrowIfStopped();
  } catch (const Interrupted&) {
    std::_Exit(3);
  }
  std::_Exit(5);
}

TEST(InterruptDeathTest, ASignalHandlerMakesTheNextCheckThrow) {
  EXPECT_EXIT(StopBySignal(), testing::ExitedWithCode(3), "");
}

// A loop ends with what is at work.
[[noreturn]] void StopInALoop() {
  std::atomic<int> begun = 0;
  try {
    ParallelFor(1000, [&](size_t, int) {
      ++begun;
      RequestStop();
    });
  } catch (const Interrupted&) {
    std::_Exit(begun <= Threads() ? 3 : 4);
  }
  std::_Exit(5);
}

TEST(InterruptDeathTest, EndsALoopOnAllThreads) { EXPECT_EXIT(StopInALoop(), testing::ExitedWithCode(3), ""); }

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

struct Named {
  std::string_view name;
};
constexpr Named kThree[] = {{"a"}, {"b"}, {"c"}};

TEST(Listed, SeparatesTexts) {
  EXPECT_EQ(Listed(std::vector<std::string>{"a", "", "c"}, ","), "a,,c");
  EXPECT_EQ(Listed(std::vector<std::string>{}, ","), "");
  EXPECT_EQ(Listed(std::map<std::string, int>{{"a", 1}, {"b", 2}} | std::views::keys, " "), "a b");
}

TEST(Listed, TakesTextsFromItems) {
  EXPECT_EQ(Listed(kThree, ", ", &Named::name), "a, b, c");
  EXPECT_EQ(Listed(std::vector{1, 2}, "+", [](int i) { return std::to_string(i); }), "1+2");
}

TEST(Listed, HasAnotherWordBeforeTheLast) {
  EXPECT_EQ(Listed(kThree, ", ", &Named::name, " or "), "a, b or c");
  EXPECT_EQ(Listed(std::span(kThree).first(2), ", ", &Named::name, " or "), "a or b");
  EXPECT_EQ(Listed(std::span(kThree).first(1), ", ", &Named::name, " or "), "a");
}

TEST(NearestTest, DistanceCountsLetters) {
  EXPECT_EQ(Distance("taks", "tasks"), 1u);
  EXPECT_EQ(Distance("", "abc"), 3u);
  EXPECT_EQ(Distance("kitten", "sitting"), 3u);
  EXPECT_EQ(Distance(std::string(100'000'000, 'a'), std::string(300, 'b')), 200u);  // of any length, at once
}

TEST(NearestTest, ThreeAtMostNearestFirst) {
  EXPECT_EQ(NearestText("a", {}), "");
  EXPECT_EQ(NearestText("a", {"b"}), "; the nearest is 'b'");
  EXPECT_EQ(NearestText("wq", {"norm", "wk", "wqs", "wq_bias"}), "; the nearest are 'wk', 'wqs', 'norm'");
}

TEST(NearestTest, OneWithinHalfOfTheLetters) {
  const std::vector<std::string> known{"logits", "attn_logits", "q"};
  EXPECT_EQ(*NearestOf("atn_logit", known), "attn_logits");
  EXPECT_EQ(*NearestOf("logits", known), "logits");
  EXPECT_EQ(*NearestOf("logits", {"limits", "attn_logits"}), "attn_logits");  // a part of it, rather than two letters
  EXPECT_EQ(NearestOf("tn", known), nullptr);                                 // of two letters, not
  EXPECT_EQ(NearestOf("kv", known), nullptr);
  EXPECT_EQ(NearestOf("", known), nullptr);
  EXPECT_EQ(NearestOf("q", {}), nullptr);
  EXPECT_EQ(NearestOf(std::string(100'000'000, 'a'), known), nullptr);
}

TEST(GrammarTest, OneIsSingular) {
  EXPECT_EQ(Counted(1, "window"), "1 window");
  EXPECT_EQ(Counted(0, "window"), "0 windows");
  EXPECT_EQ(Counted(20, "window"), "20 windows");
}

TEST(GrammarTest, YBecomesIesAfterAConsonant) {
  EXPECT_EQ(Counted(2, "query"), "2 queries");
  EXPECT_EQ(Counted(2, "key"), "2 keys");
  EXPECT_EQ(Counted(1, "query"), "1 query");
}

TEST(GrammarTest, AVowelTakesAn) {
  EXPECT_EQ(WithArticle("olmo2"), "an olmo2");
  EXPECT_EQ(WithArticle("llama"), "a llama");
}

TEST(GrammarTest, NeighboursAreARange) {
  EXPECT_EQ(RangesText({4, 5, 7}), "4-5,7");
  EXPECT_EQ(RangesText({0, 2, 3, 4}), "0,2-4");
  EXPECT_EQ(RangesText({9}), "9");
  EXPECT_EQ(RangesText({}), "");
}

using testing::StrEq;
using testing::ThrowsMessage;

TEST(Arguments, WhatIsAskedPasses) {
  const float x = 0;
  CheckPointer("here", &x, 1);
  CheckPointer("here", nullptr, 0);
  CheckRange("here", "head", 0, 0, 3);
  CheckRange("here", "head", 3, 0, 3);
  CheckRange("here", "rows", int64_t{1} << 62, 1);
  CheckEqual("here", "inputs", 4, 4);
  CheckSquare("here", 9, 3);
}

TEST(Arguments, WhatIsNotIsNamed) {
  const auto message = [](const Call& call, const char* text) { EXPECT_THAT(call, ThrowsMessage<Error>(StrEq(text))); };
  message([] { CheckPointer("here", nullptr, 3); }, "here: got a null pointer for 3 values");
  message([] { CheckPointer("here", nullptr, -3); }, "here: got -3 values, expected 0 or more");
  message([] { CheckRange("here", "head", 4, 0, 3); }, "here: got head 4, expected 0 to 3");
  message([] { CheckRange("here", "head", -1, 0, 3); }, "here: got head -1, expected 0 to 3");
  message([] { CheckRange("here", "rows", 0, 1); }, "here: got rows 0, expected at least 1");
  message([] { CheckEqual("here", "inputs", 5, 4); }, "here: got inputs 5, expected 4");
  message([] { CheckSquare("here", 8, 3); }, "here: got moments 8, expected 9");
  message([] { CheckSquare("here", 0, 0); }, "here: got inputs 0, expected 1 to 2147483648");
  message([] { CheckSquare("here", 0, int64_t{1} << 32); }, "here: got inputs 4294967296, expected 1 to 2147483648");
}

TEST(Kept, IsSaidUntilNothingIs) {
  NoteKept("a.part keeps 3 of 9 batches");
  EXPECT_EQ(KeptText(), "; a.part keeps 3 of 9 batches, and the same command continues");
  NoteKept("");
  EXPECT_EQ(KeptText(), "; nothing was kept");
}

TEST(Kept, WhatIsTakenUpIsSaidToWhoAskedForIt) {
  static std::string said;
  SayContinued("a.part", "3 of 9 batches");  // nobody did
  OnContinued([](const std::string& text) { said += text; });
  SayContinued("b.part", "4 of 9 batches");
  OnContinued(nullptr);
  EXPECT_EQ(said, "b.part: continues from 4 of 9 batches");
}

TEST(Kept, WorkGoesOnAfterAForgottenStop) {
  RequestStop();
  EXPECT_THROW(ParallelFor(1, [](size_t, int) {}), Interrupted);
  ForgetStop();
  int ran = 0;
  ParallelFor(1, [&](size_t, int) { ++ran; });
  EXPECT_EQ(ran, 1);
}

}  // namespace

}  // namespace tare::message_test
