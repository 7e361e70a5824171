// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/report/figures/figures.h"
#include "tests/support/report_material.h"

namespace tare::figures_needles_test {
namespace {

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
}  // namespace tare::figures_needles_test
