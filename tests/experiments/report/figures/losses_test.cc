// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/report/figures/figures.h"
#include "tests/support/report_material.h"

namespace tare::losses_test {
namespace {

using ::testing::ElementsAre;

TEST(LossesTest, HasARowPerRangeOfContextWithItsError) {
  const Json ranges = Json::array({{{"first", 1}, {"last", 1}, {"tokens", 4}, {"nll", 6.0}, {"nll_stderr", nullptr}},
                                   {{"first", 2}, {"last", 3}, {"tokens", 8}, {"nll", 4.5}, {"nll_stderr", 0.5}}});
  const Json evaluation{{"schema", "tare.eval/1"},
                        {"model", "m"},
                        {"plan", "f32"},
                        {"tasks", {{"perplexity:t", {{"by_position", ranges}}}}}};
  const FigureData figure = Losses(MaterialOf({evaluation})).at(0);
  EXPECT_THAT(figure.table.rows, ElementsAre(ElementsAre("m, f32 on t", 1, 1, 6.0, nullptr, nullptr, nullptr, 4),
                                             ElementsAre("m, f32 on t", 2, 3, 4.5, 0.5, 4.0, 5.0, 8)));
  EXPECT_THAT(figure.findings, ElementsAre("The loss of m on t is 6 nats per token with 1 token of context, "
                                           "and 4.50 +/- 0.50 with 2 to 3 tokens."));
}

}  // namespace
}  // namespace tare::losses_test
