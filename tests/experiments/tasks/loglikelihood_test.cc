// SPDX-License-Identifier: Apache-2.0
// Figures from made-up scores; the scores themselves are tested in ending_scores_test.cc.
#include "experiments/tasks/loglikelihood.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace tare::loglikelihood_test {
namespace {

std::vector<ChoiceItem> Items(size_t count, const char* keys = "{}") {
  std::vector<ChoiceItem> items(count);
  for (size_t i = 0; i < count; ++i) items[i].line = i + 1, items[i].keys = Json::parse(keys);
  return items;
}

TEST(LogLikelihood, FiguresAreTheHarnesss) {
  const TaskResult result = LogLikelihoods(Items(3), {{{.log_likelihood = -1, .greedy = true}},
                                                      {{.log_likelihood = -4, .greedy = false}},
                                                      {{.log_likelihood = -2.5}}});
  EXPECT_DOUBLE_EQ(result.figures["acc"], 2.0 / 3);
  EXPECT_NEAR(result.figures["acc_stderr"].get<double>(), std::sqrt(2.0 / 9 / 2), 1e-15);
  EXPECT_DOUBLE_EQ(result.figures["perplexity"], std::exp(2.5));
  EXPECT_EQ(result.figures["outcomes"], "101");
  EXPECT_EQ(result.records[1], Json::parse(R"({"line": 2, "log_likelihood": -4.0, "greedy": false})"));
  const std::optional<Figures> figures = ReadFigures(result.figures, kLogLikelihoodTask);
  ASSERT_TRUE(figures);
  EXPECT_EQ(figures->list[1].windows.sums, (std::vector<double>{1, 4, 2.5}));
  EXPECT_EQ(figures->list[1].windows.counts, (std::vector<double>{1, 1, 1}));
}

TEST(LogLikelihood, EveryContinuationOfALineCounts) {
  const TaskResult result = LogLikelihoods(Items(1), {{{.log_likelihood = -1}, {.log_likelihood = -3}}});
  EXPECT_EQ(result.figures["n"], 2);
  EXPECT_DOUBLE_EQ(result.figures["perplexity"], std::exp(2.0));
  EXPECT_EQ(result.records[1]["line"], 1);
}

TEST(LogLikelihood, ItemsThatShareSamplesAreCountedByThese) {
  const TaskResult result = LogLikelihoods(Items(2, R"({"sample": 7})"), {{{.greedy = true}}, {{.greedy = false}}});
  EXPECT_EQ(result.figures["sample_items"], Json::parse("[2.0]"));
  EXPECT_EQ(result.figures["sample_right"], Json::parse("[1.0]"));
  EXPECT_EQ(result.records[0]["item"]["sample"], 7);
}

}  // namespace
}  // namespace tare::loglikelihood_test
