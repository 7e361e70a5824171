// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/report/figures/figures.h"
#include "tests/support/report_material.h"

namespace tare::positions_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(PositionsTest, HasARowPerRangeOfContext) {
  const Json ranges =
      Json::array({{{"first", 1}, {"last", 1}, {"tokens", 4}, {"kld", 0.5}, {"perplexity_ratio", 1.5}},
                   {{"first", 2}, {"last", 3}, {"tokens", 8}, {"kld", 0.25}, {"perplexity_ratio", 1.1}}});
  const Json task{{"kld", 0.375}, {"by_context", ranges}};
  const Json evaluation{
      {"schema", "tare.eval/1"}, {"model", "m"}, {"plan", "q=int4/token"}, {"tasks", {{"divergence:t", task}}}};
  const FigureData figure = Positions(MaterialOf({evaluation})).at(0);
  EXPECT_THAT(figure.table.rows, ElementsAre(ElementsAre("m, q=int4/token", 1, 1, 0.5, 1.5, 4),
                                             ElementsAre("m, q=int4/token", 2, 3, 0.25, 1.1, 8)));
  EXPECT_THAT(
      figure.findings,
      ElementsAre("The predictions of m under q=int4/token diverge by 0.375 nats per token: by 0.5 with 1 token of "
                  "context, and by 0.25 with 2 to 3 tokens."));
}

TEST(PositionsTest, ADivergenceOf0IsMissingOnALogAxis) {
  const Json ranges =
      Json::array({{{"first", 1}, {"last", 1}, {"tokens", 4}, {"kld", 0.0}, {"perplexity_ratio", 1.0}},
                   {{"first", 2}, {"last", 3}, {"tokens", 4}, {"kld", nullptr}, {"perplexity_ratio", 1.0}}});
  const Json task{{"kld", 0.0}, {"by_context", ranges}};
  const Json evaluation{{"schema", "tare.eval/1"}, {"model", "m"}, {"plan", "p"}, {"tasks", {{"divergence:t", task}}}};
  EXPECT_THAT(MissingOf(Positions(MaterialOf({evaluation})).at(0)),
              ElementsAre("m, p, context 1: a log axis cannot show 0",
                          "model, plan m, p, context from (tokens) 2, to 3: divergence (nats) is not a number"));
}

}  // namespace
}  // namespace tare::positions_test
