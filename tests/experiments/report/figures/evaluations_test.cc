// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/report/figures/figures.h"
#include "tests/support/report_material.h"

namespace tare::evaluations_test {
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

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Json FoundBy(const char* key) {
  const auto group = [&](double depth, double acc, int n) {
    return Json{{"depth", depth}, {key, 512}, {"n", n}, {"acc", acc}, {"acc_low", 0.1}, {"acc_high", 1.0}};
  };
  return {{"schema", "tare.eval/1"},
          {"model", "m"},
          {"plan", "q=int4/token"},
          {"tasks", {{"choice:needles", {{"by", {group(0, 1.0, 10), group(0.5, 0.25, 20)}}}}}}};
}

TEST(NeedlesTest, HasACellPerDepthAndLength) {
  const FigureData figure = Needles(MaterialOf({FoundBy("length")})).at(0);
  ASSERT_EQ(figure.table.rows.size(), 2u);
  EXPECT_THAT(figure.table.rows[1], ElementsAre("m, q=int4/token, needles", 0.5, 512, 0.25, 0.1, 1.0, 20));
  EXPECT_THAT(figure.findings,
              ElementsAre("m under q=int4/token finds 15 of the 30 needles of needles, and the fewest at depth "
                          "0.5 and length 512: a share of 0.25 [0.10, 1.00]."));
  EXPECT_THAT(figure.caption, HasSubstr("10 to 20 items per cell"));
}

TEST(NeedlesTest, IfAllAreFoundTheFindingNamesNoFewest) {
  Json all = FoundBy("length");
  all["tasks"]["choice:needles"]["by"].erase(1);
  EXPECT_THAT(Needles(MaterialOf({all})).at(0).findings,
              ElementsAre("m under q=int4/token finds 10 of the 10 needles of needles."));
}

TEST(NeedlesTest, APanelsTitleHasALinePerPart) {
  const Json specification = SpecificationOf(Needles(MaterialOf({FoundBy("length")})).at(0));
  EXPECT_EQ(specification["concat"][0]["title"]["text"], Json({"m", "q=int4/token", "needles"}));
}

TEST(NeedlesTest, OtherKeysMakeNoFigure) { EXPECT_TRUE(Needles(MaterialOf({FoundBy("shots")})).empty()); }

}  // namespace
}  // namespace tare::evaluations_test
