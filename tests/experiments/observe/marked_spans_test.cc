// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "experiments/model/config/config.h"
#include "experiments/observe/statistics_job.h"
#include "experiments/text/tokenizer/tokenizer.h"
#include "quant/base/message.h"
#include "quant/file/sha256.h"
#include "tests/support/call.h"
#include "tests/support/golden.h"
#include "tests/support/run_command.h"

namespace tare::marked_spans_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class MarkedSpansTest : public testing::Test {
 protected:
  MarkedSpans Load(const std::string& text) {
    PutFile(folder_ / "spans.jsonl", text);
    const int64_t lengths[] = {20, 30};
    return MarkedSpans::Load(folder_ / "spans.jsonl", lengths);
  }
  std::string Refused(const std::string& text) {
    try {
      Load(text);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  TemporaryFolder folder_;
};

TEST_F(MarkedSpansTest, TheLastLineCountsWithoutItsNewline) {
  const MarkedSpans spans = Load("{\"sequence\": 0, \"answer\": [[3, 4]]}\n{\"sequence\": 1, \"answer\": [[4, 6]]}");
  EXPECT_NE(spans.Find(0), nullptr);
  EXPECT_NE(spans.Find(1), nullptr);
}

TEST_F(MarkedSpansTest, DefaultsAreFilledIn) {
  const MarkedSpans spans = Load(
      "{\"sequence\": 1, \"answer\": [[10, 12], [4, 6]]}\n"
      "{\"sequence\": 0, \"answer\": [[3, 4]], \"noise\": [[5, 9]], \"queries\": [10, 13]}\n");
  const Marks& filled = *spans.Find(1);
  EXPECT_EQ(filled.queries, (TokenRange{29, 30}));
  EXPECT_THAT(filled.noise, ElementsAre(TokenRange{1, 4}, TokenRange{6, 10}, TokenRange{12, 29}));
  EXPECT_THAT(spans.Find(0)->noise, ElementsAre(TokenRange{5, 9}));
  EXPECT_EQ(spans.Find(2), nullptr);
  EXPECT_EQ(spans.sha256.size(), 64u);
}

TEST_F(MarkedSpansTest, MassIsOfMagnitudesWithinTheRow) {
  const std::vector<float> row = {1, -2, 4, -8};
  const TokenRange ranges[] = {{1, 2}, {3, 9}};
  EXPECT_EQ(MassOf(row, ranges), 10.0);
}

TEST_F(MarkedSpansTest, BadLinesAreRefusedByPlace) {
  EXPECT_THAT(Refused("{\"sequence\": 0, \"answer\": [[3, 21]]}\n"),
              HasSubstr("line 1: answer: got [3, 21], expected a range within the sequence's 20 positions"));
  EXPECT_THAT(Refused("{\"sequence\": 0, \"answer\": [[-1, 2]]}\n"), HasSubstr("got [-1, 2]"));
  EXPECT_THAT(Refused("{\"sequence\": 0, \"answer\": [[2, 2]]}\n"), HasSubstr("got [2, 2]"));
  EXPECT_THAT(Refused("{\"sequence\": 2, \"answer\": [[1, 2]]}\n"), HasSubstr("sequence: got 2, expected 0 to 1"));
  EXPECT_THAT(Refused("{\"sequence\": 0}\n"), HasSubstr("answer: missing"));
  EXPECT_THAT(Refused("{\"sequence\": 0, \"answer\": []}\n"), HasSubstr("answer: got []"));
  EXPECT_THAT(Refused("{\"sequence\": 0, \"answer\": [[1, 3], [2, 4]]}\n"), HasSubstr("overlap at 2"));
  EXPECT_THAT(Refused("{\"sequence\": 0, \"answer\": [[1, 2]], \"x\": 1}\n"), HasSubstr("got the key 'x'"));
  EXPECT_THAT(Refused("{\"sequence\": 0, \"answer\": [[1, 2.5]]}\n"), HasSubstr("got 2.5, expected a whole number"));
  EXPECT_THAT(Refused("{\"sequence\": 0, \"answer\": [[1, 2]]}\n{\"sequence\": 0, \"answer\": [[1, 2]]}\n"),
              HasSubstr("line 2: sequence: got 0 twice"));
  EXPECT_THAT(Refused("not JSON\n"), HasSubstr("line 1"));
  EXPECT_THAT(Refused(""), HasSubstr("got no items"));
}

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using Json = nlohmann::json;

class MarkedItemsTest : public testing::Test {
 protected:
  std::string Item(const std::string& context, const std::vector<std::string>& endings, int label) {
    return Json{{"ctx", context}, {"endings", endings}, {"label", label}}.dump() + "\n";
  }
  MarkedItems Load(const std::string& lines, size_t limit = 0) {
    PutFile(folder_ / "items.jsonl", lines);
    return LoadMarkedItems(folder_ / "items.jsonl", model_, LoadConfig(model_), limit);
  }
  void Refuses(const std::string& lines, const char* why) {
    EXPECT_THAT(Call([&] { Load(lines); }), ThrowsMessage<Error>(HasSubstr(why)));
  }
  std::vector<int32_t> Part(const ScoredSequence& s, const TokenRange& range) {
    return {s.tokens.begin() + range.begin, s.tokens.begin() + range.end};
  }

  TemporaryFolder folder_;
  const std::filesystem::path model_ = PairFolder("novels-standard");
  const Tokenizer tokenizer_ = Tokenizer::Load(model_);
  const std::string context_ =
      "So the evening mists. The magic number of Riga is 4733. I first left the forge.\n What is the magic number of "
      "Riga? It is";
};

TEST_F(MarkedItemsTest, AnItemIsItsContextAndTrueEndingMarked) {
  const MarkedItems items = Load(Item(context_, {"5248", "4733"}, 1));
  ASSERT_EQ(items.sequences.size(), 1u);
  const ScoredSequence& s = items.sequences[0];
  EXPECT_EQ(s.tokens[0], tokenizer_.bos());
  EXPECT_THAT(std::vector<int32_t>(s.tokens.begin() + 1, s.tokens.end()),
              ElementsAreArray(tokenizer_.Encode(context_ + " 4733")));
  const Marks& marks = *items.spans.Find(0);
  // Each query's next token is one of the ending: the word's mark and four digits.
  EXPECT_EQ(marks.queries.end, std::ssize(s.tokens) - 1);
  EXPECT_EQ(marks.queries.end - marks.queries.begin, 5);
  ASSERT_EQ(marks.answer.size(), 1u);
  EXPECT_THAT(Part(s, marks.answer[0]), ElementsAreArray(Part(s, {marks.queries.begin + 1, marks.queries.end + 1})));
  EXPECT_LT(marks.answer[0].end, marks.queries.begin);
  // With the noise that is the whole context but <s>.
  EXPECT_EQ(marks.noise,
            (std::vector<TokenRange>{{1, marks.answer[0].begin}, {marks.answer[0].end, marks.queries.begin + 1}}));
  EXPECT_EQ(items.input.sha256, Sha256OfFile(folder_ / "items.jsonl"));
  EXPECT_EQ(items.spans.sha256, items.input.sha256);
}

TEST_F(MarkedItemsTest, EveryOccurrenceOfAnAnswerIsMarked) {
  const MarkedItems items = Load(Item("4733 and " + context_, {"5248", "4733"}, 1) + Item(context_, {"4733", "1"}, 0));
  EXPECT_EQ(items.spans.Find(0)->answer.size(), 2u);
  EXPECT_EQ(items.spans.Find(0)->answer[0].begin, 1);
  EXPECT_EQ(items.spans.Find(1)->answer.size(), 1u);
  EXPECT_EQ(Load(Item(context_, {"4733", "1"}, 0) + Item("x", {"a", "b"}, 0), 1).sequences.size(), 1u);
}

TEST_F(MarkedItemsTest, NeedlesAreMarked) {
  const MarkedItems items = LoadMarkedItems(PairFolder("needles-4.jsonl"), model_, LoadConfig(model_), 100);
  ASSERT_EQ(items.sequences.size(), 100u);
  for (int64_t i = 0; i < 100; ++i) {
    const Marks& marks = *items.spans.Find(i);
    EXPECT_EQ(marks.queries.end - marks.queries.begin, 5) << i;
    EXPECT_THAT(Part(items.sequences[static_cast<size_t>(i)], marks.answer[0]),
                ElementsAreArray(
                    Part(items.sequences[static_cast<size_t>(i)], {marks.queries.begin + 1, marks.queries.end + 1})))
        << i;
  }
}

TEST_F(MarkedItemsTest, ItemsWithoutMarksAreRefusedByLine) {
  const std::string good = Item(context_, {"4733", "1"}, 0);
  Refuses(good + Item(context_, {"4733", "9999"}, 1), "line 2: the true ending '9999' does not occur in the context");
  Refuses(Item("The oven is even. It is", {"ven", "x"}, 0), "line 1: the true ending 'ven' does not occur");
  std::string longer;
  for (int i = 0; i < 1500; ++i) longer += "evening mists ";
  Refuses(good + Item(longer + context_, {"4733", "1"}, 0), "expected at most max_position_embeddings 2048");
  Refuses("", "got no items");
}

}  // namespace
}  // namespace tare::marked_spans_test
