// SPDX-License-Identifier: Apache-2.0
#include "experiments/observe/marked_spans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/error.h"
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
  EXPECT_EQ(spans.sha256().size(), 64u);
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
  EXPECT_THAT(Refused(""), HasSubstr("got no line"));
}

}  // namespace
}  // namespace tare::marked_spans_test
