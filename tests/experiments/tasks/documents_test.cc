// SPDX-License-Identifier: Apache-2.0
// Windows against lm-evaluation-harness's rule, worked by hand; figures against what it logged with transformers
// (tests/data/harness).
#include "experiments/tasks/documents.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "quant/base/error.h"
#include "tests/support/golden.h"

namespace tare {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TaskResult Measured(int64_t window) {
  Model model(PairFolder("novels-standard"));
  const RunTask run = kDocumentsTask.read(HarnessFile("wikitext.jsonl"), model, {.windows = {.window = window}});
  PlanRun plan(Plan::Parse(""), Carrying::kSimulated, ModelSitesOf(model));
  return run(model, plan, {});
}

// The harness's example: ten tokens, four at a time.
TEST(Documents, WindowsAreTheHarnesss) {
  std::vector<int32_t> tokens(10);
  std::iota(tokens.begin(), tokens.end(), 0);
  const std::vector<ScoredSequence> windows = RollingWindows(tokens, 99, 4);
  ASSERT_EQ(windows.size(), 3u);
  EXPECT_THAT(windows[0].tokens, ElementsAre(99, 0, 1, 2, 3));
  EXPECT_THAT(windows[1].tokens, ElementsAre(3, 4, 5, 6, 7));
  EXPECT_THAT(windows[2].tokens, ElementsAre(5, 6, 7, 8, 9));
  EXPECT_EQ(windows[0].first_target, 1);
  EXPECT_EQ(windows[1].first_target, 1);
  EXPECT_EQ(windows[2].first_target, 3) << "8 and 9 only";
  EXPECT_THAT(RollingWindows({5}, 99, 4)[0].tokens, ElementsAre(99, 5));
  EXPECT_THAT(RollingWindows({1, 2, 3}, 99, 1)[2].tokens, ElementsAre(2, 3));
  EXPECT_TRUE(RollingWindows({}, 99, 4).empty());
}

struct Logged {
  int64_t window;
  double first, word_perplexity;  // the first document's log-likelihood; of both
};

// A token's log-probability is within 1e-4 of transformers' (choice_test.cc: 1e-3 for endings of some ten tokens), so
// that of a document of 350 within 0.035, and the mean loss of a word (144 of them) within 3e-4.
TEST(Documents, LikelihoodsAreTheHarnesss) {
  for (const Logged& logged : {Logged{32, -1215.9588318, 12366.086}, {2048, -1139.4727783, 7160.8508}}) {
    const TaskResult result = Measured(logged.window);
    ASSERT_EQ(result.records.size(), 2u);
    const auto sum = [&](const char* key) {
      return result.records[0][key].get<double>() + result.records[1][key].get<double>();
    };
    EXPECT_NEAR(result.records[0]["log_likelihood"].get<double>(), logged.first, 0.035) << logged.window;
    EXPECT_NEAR(result.records[1]["log_likelihood"].get<double>(), -103.2209930, 0.01) << logged.window;
    const double loss = -sum("log_likelihood"), words = sum("words"), bytes = sum("bytes");
    const double per_word = result.figures["word_perplexity"];
    EXPECT_NEAR(per_word, logged.word_perplexity, 3e-4 * logged.word_perplexity);
    EXPECT_NEAR(per_word, std::exp(loss / words), 1e-12 * per_word);
    EXPECT_NEAR(result.figures["byte_perplexity"].get<double>(), std::exp(loss / bytes), 1e-12);
    EXPECT_NEAR(result.figures["bits_per_byte"].get<double>(), loss / bytes / std::log(2), 1e-12);
    EXPECT_TRUE(ReadFigures(result.figures, kDocumentsTask));
    EXPECT_THAT(HowMeasured(result.figures, kDocumentsTask), HasSubstr("2 documents, each by itself after <s>"));
  }
}

TEST(Documents, WindowsMustFitThePositions) {
  EXPECT_THAT([] { Measured(2049); }, ThrowsMessage<Error>(HasSubstr("got windows of 2049, expected 2 to")));
  EXPECT_THAT([] { Measured(1); }, ThrowsMessage<Error>(HasSubstr("got windows of 1, expected 2 to")));
}

}  // namespace
}  // namespace tare
