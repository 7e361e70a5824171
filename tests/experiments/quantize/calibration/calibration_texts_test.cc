// SPDX-License-Identifier: Apache-2.0
// Several texts in proportion, documents cut at their ends, and cuts of a text.
#include "experiments/quantize/calibration/calibration_texts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/model/config/config.h"
#include "experiments/text/tokenizer/tokenizer.h"
#include "quant/base/message.h"
#include "quant/file/atomic_file.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/calibrated_job.h"
#include "tests/support/golden.h"

namespace tare::calibration_texts_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class CalibrationTextsTest : public testing::Test {
 protected:
  CalibrationTextsTest() {
    std::string a, b;
    for (int i = 0; i < 400; ++i) a += "It was the best of times. ";
    for (int i = 0; i < 90; ++i) b += "Call me Ishmael. ";
    WriteFileAtomically(folder_ / "a.txt", a);
    WriteFileAtomically(folder_ / "b.txt", b);
  }
  std::string Path(const char* name) const { return (folder_ / name).string(); }
  CalibrationWindows Cut(const std::string& text, const WindowOptions& options, const Shard& cut = {}) const {
    return CutCalibration(CalibrationTexts::Parse(text, cut), model_, config_, options);
  }
  // Without `<s>` in front.
  std::vector<int32_t> Encoded(const std::string& text) const { return Tokenizer::Load(model_).Encode(text); }

  const TemporaryFolder folder_;
  const std::filesystem::path model_ = PairFolder("novels-differential");
  const ModelConfig config_ = LoadConfig(model_);
};

TEST_F(CalibrationTextsTest, WeightsAreParsed) {
  const CalibrationTexts texts = CalibrationTexts::Parse(Path("a.txt") + ":2.5," + Path("b.txt"));
  ASSERT_EQ(texts.parts.size(), 2u);
  EXPECT_EQ(texts.parts[0].file, Path("a.txt"));
  EXPECT_EQ(texts.parts[0].weight, 2.5);
  EXPECT_EQ(texts.parts[1].weight, 1);
  EXPECT_TRUE(CalibrationTexts::Parse("").empty());
  for (const char* wrong :
       {"a:0", "a:-1", "a:x", "a:", "a:inf", "a:nan", "a:1e305", "a:1e-7", "a,", ",a", "a:1,a:2", ":2"})
    EXPECT_THAT([&] { CalibrationTexts::Parse(wrong); }, ThrowsMessage<Error>(HasSubstr("--calibrate: "))) << wrong;
}

TEST_F(CalibrationTextsTest, AFilesOwnColonsAndCommasAreItsName) {
  WriteFileAtomically(folder_ / "a:2,b", "text");
  const CalibrationTexts texts = CalibrationTexts::Parse(Path("a:2,b"));
  ASSERT_EQ(texts.parts.size(), 1u);
  EXPECT_EQ(texts.parts[0].file, Path("a:2,b"));
}

// One text is cut as everywhere else; a second one takes its part of the tokens.
TEST_F(CalibrationTextsTest, TextsShareTheTokens) {
  const WindowOptions options{.window = 33, .tokens = 960};
  const CalibrationWindows one = Cut(Path("a.txt"), options);
  EXPECT_EQ(one.sequences.size(), 30u);
  EXPECT_THAT(one.provenance, AllOf(HasSubstr("a.txt, sha256 "), HasSubstr(", 990 tokens in 30 windows, sha256 ")));
  const CalibrationWindows two = Cut(Path("a.txt") + ":2," + Path("b.txt") + ":1", options);
  ASSERT_EQ(two.files.size(), 2u);
  EXPECT_EQ(two.files[0].windows, 20);
  EXPECT_EQ(two.files[1].windows, 10);
  EXPECT_EQ(two.files[1].tokens, 330);
  EXPECT_EQ(two.sequences.size(), 30u);
  EXPECT_THAT(two.provenance, HasSubstr("; b.txt, sha256 "));
  EXPECT_EQ(Cut(Path("b.txt") + "," + Path("a.txt") + ":2", options).files[1].windows, 20);
}

// Whole windows miss the proportion of few tokens: what was asked stands beside what came of it.
TEST_F(CalibrationTextsTest, WhatTheWeightsAskForIsKept) {
  const CalibrationWindows cut = Cut(Path("a.txt") + ":3," + Path("b.txt"), {.window = 33, .tokens = 120});
  ASSERT_EQ(cut.files.size(), 2u);
  EXPECT_EQ(cut.files[0].asked, 0.75);
  EXPECT_EQ(cut.files[1].asked, 0.25);
  EXPECT_EQ(Cut(Path("a.txt"), {.window = 33}).files[0].asked, 1);
}

TEST_F(CalibrationTextsTest, FewTokensAreNoticed) {
  static std::string noticed;
  OnNotice([](const std::string& text) { noticed += text; });
  NoticeFewTokens(Cut(Path("a.txt"), {.window = 33, .tokens = 990}), config_);
  EXPECT_EQ(noticed, "");
  NoticeFewTokens(Cut(Path("a.txt"), {.window = 33, .tokens = 9}), config_);
  OnNotice(nullptr);
  EXPECT_THAT(noticed, HasSubstr("--calibrate: got 10 tokens, fewer than the 256 inputs"));
}

// The text that is too short keeps its share, and the other gets less.
TEST_F(CalibrationTextsTest, AShortTextKeepsTheProportion) {
  const auto all = static_cast<int64_t>(Encoded(GetFile(folder_ / "b.txt")).size());
  for (const int64_t tokens : {int64_t{0}, 10 * all}) {
    const CalibrationWindows cut = Cut(Path("a.txt") + "," + Path("b.txt"), {.window = 2, .tokens = tokens});
    EXPECT_EQ(cut.files[0].windows, all);  // of one token behind <s>
    EXPECT_EQ(cut.files[1].windows, all);
  }
}

TEST_F(CalibrationTextsTest, DocumentsEndTheirWindows) {
  const std::vector<std::string> documents{"One fish.", "Two fish, red fish, blue fish and another.", "Three."};
  std::string lines;
  for (const std::string& document : documents) lines += "{\"text\": \"" + document + "\"}\n";
  WriteFileAtomically(folder_ / "d.jsonl", lines);
  const CalibrationWindows cut = Cut(Path("d.jsonl"), {.window = 8});
  std::vector<int32_t> ids, expected;  // without <s>
  for (const ScoredSequence& s : cut.sequences) {
    EXPECT_LE(s.tokens.size(), 8u);
    EXPECT_EQ(s.tokens[0], Tokenizer::Load(model_).bos());
    ids.insert(ids.end(), s.tokens.begin() + 1, s.tokens.end());
  }
  size_t windows = 0;
  for (const std::string& document : documents) {
    const std::vector<int32_t> of = Encoded(document);
    expected.insert(expected.end(), of.begin(), of.end());
    windows += (of.size() + 6) / 7;
  }
  EXPECT_EQ(ids, expected);
  EXPECT_EQ(cut.sequences.size(), windows);
  // Half the tokens are half the windows, however short.
  const auto half = static_cast<int64_t>(expected.size() / 2);
  EXPECT_NEAR(static_cast<double>(Cut(Path("d.jsonl"), {.window = 8, .tokens = half}).sequences.size()),
              static_cast<double>(windows) / 2, 1);
}

// A list longer than a file's name may be, and no file.
TEST_F(CalibrationTextsTest, ListsMayBeLong) {
  std::string list = Path("a.txt");
  for (int i = 0; i < 40; ++i) list += ",part-" + std::to_string(i) + "-of-forty.txt:3";
  EXPECT_EQ(CalibrationTexts::Parse(list).parts.size(), 41u);
}

// From the start, exactly: a long document first does not bring its whole length.
TEST_F(CalibrationTextsTest, TheFirstTokensOfDocuments) {
  std::string lines = "{\"text\": \"" + GetFile(folder_ / "b.txt") + "\"}\n";
  for (int i = 0; i < 200; ++i) lines += "{\"text\": \"Three.\"}\n";
  WriteFileAtomically(folder_ / "d.jsonl", lines);
  const CalibrationWindows cut = Cut(Path("d.jsonl"), {.window = 8, .tokens = 21, .from = TakeFrom::kStart});
  EXPECT_EQ(cut.files[0].windows, 3);
  EXPECT_EQ(cut.files[0].tokens, 24);
}

TEST_F(CalibrationTextsTest, CutsAreTheWholeText) {
  const std::vector<int32_t> all = Encoded(GetFile(folder_ / "a.txt"));
  std::vector<int32_t> joined;
  std::string first;
  for (size_t i = 0; i < 5; ++i) {
    const CalibrationWindows cut = Cut(Path("a.txt"), {.window = 50}, {.index = i, .count = 5});
    for (const ScoredSequence& s : cut.sequences) joined.insert(joined.end(), s.tokens.begin() + 1, s.tokens.end());
    EXPECT_THAT(cut.provenance, HasSubstr(", cut " + std::to_string(i) + "/5 by 0 tokens, window 50, "));
  }
  EXPECT_EQ(joined, all);
  WriteCalibrationIds(folder_ / "ids.h5");  // eight rows
  EXPECT_EQ(Cut(Path("ids.h5"), {}, {.index = 1, .count = 3}).sequences.size(), 3u);
  EXPECT_THAT([&] { Cut(Path("ids.h5"), {}, {.index = 0, .count = 9}); },
              ThrowsMessage<Error>(HasSubstr("got 8 rows, expected at least 9, one for each cut")));
}

TEST_F(CalibrationTextsTest, Refusals) {
  const std::string both = Path("a.txt") + ":1000," + Path("b.txt");
  EXPECT_THAT([&] { Cut(both, {.tokens = 500}); }, ThrowsMessage<Error>(HasSubstr("b.txt: got no token, its share")));
  EXPECT_THAT([&] { Cut(both, {.limit = 3}); }, ThrowsMessage<Error>(HasSubstr("--limit: got 3 with several texts")));
  WriteFileAtomically(folder_ / "chat.jsonl", "{\"messages\": []}\n");
  EXPECT_THAT([&] { Cut(Path("chat.jsonl"), {}); },
              ThrowsMessage<Error>(HasSubstr("line 1: \"messages\": got 0 messages")));
}

}  // namespace
}  // namespace tare::calibration_texts_test
