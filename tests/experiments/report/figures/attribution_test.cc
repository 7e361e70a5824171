// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/report/figures/figures.h"
#include "tests/support/report_material.h"

namespace tare::figures_attribution_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(AttributionTest, TheSiteThatChangesMostIsFirst) {
  const Material material = MaterialOf({SweepOf({CellsOf("a", {{16, 20}}), CellsOf("a", {{4, 21}, {8, 20}}, "q"),
                                                 CellsOf("a", {{4, 25}}, "k"), CellsOf("a", {{4, 18}}, "v")})});
  const FigureData figure = CostsOfSites(material).at(0);
  ASSERT_EQ(figure.table.rows.size(), 3u);  // at the fewest bits
  EXPECT_EQ(figure.table.rows[0]["site"], "k");
  EXPECT_EQ(figure.table.rows[1]["site"], "v");  // by magnitude
  EXPECT_EQ(figure.table.rows[2]["change"], 1.0);
  EXPECT_THAT(figure.findings, ElementsAre(HasSubstr("k changes a's perplexity on text most: it rises by 5.0")));
  EXPECT_TRUE(Bits(material).empty());
}

TEST(AttributionTest, ASweepOfOneSiteHasNoFigure) {
  EXPECT_TRUE(CostsOfSites(MaterialOf({SweepOf({CellsOf("a", {{16, 20}, {4, 21}})})})).empty());
}

// No figure of one site shows plans of several, or of other bits each.
TEST(AttributionTest, PlansOfSeveralSitesAreShownWhole) {
  const Json q = CellsOf("a", {{4, 22}}, "q=int4/token,k"), v = CellsOf("a", {{8, 23}}, "v");
  const std::vector<FigureData> figures =
      CostsOfSites(MaterialOf({SweepOf({CellsOf("a", {{16, 20}, {4, 21}}), q, v})}));
  ASSERT_EQ(figures.size(), 1u);
  EXPECT_EQ(figures[0].title, "What each plan costs");
  std::vector<std::string> plans;
  for (const Json& row : figures[0].table.rows) plans.push_back(row["site"]);
  EXPECT_THAT(plans, testing::ElementsAre("v=int8/tensor", "q=int4/token,k=int4/tensor", "attn_logits=int4/tensor"));
  ASSERT_EQ(figures[0].findings.size(), 3u);
  EXPECT_THAT(figures[0].findings[1],
              testing::StartsWith("With q=int4/token,k=int4/tensor, a's perplexity on text rises by 2.00 ["));
}

TEST(AttributionTest, PartsOfAPlanAloneAndTakenOut) {
  const auto change = [](double value) { return Json{{"value", value}, {"low", value - 1}, {"high", value + 1}}; };
  const Json part{{"part", "k"},
                  {"alone_plan", "k=int4/token"},
                  {"without_plan", "q=int4/token"},
                  {"alone", change(5)},
                  {"taken_out", change(6)}};
  const Json figure{{"task", "perplexity:t"}, {"figure", "perplexity"}, {"n", 40},
                    {"parts", {part}},        {"change", change(9)},    {"sum", change(5)},
                    {"left_over", change(4)}};
  const Json json{{"schema", "tare.attribution/1"},
                  {"model", "m"},
                  {"plan", "k=int4/token"},
                  {"by", "site,layer"},
                  {"figures", {figure}}};
  const FigureData drawn = CostsOfSites(MaterialOf({json})).at(0);
  EXPECT_EQ(drawn.title, "Which site and layer of a plan costs what in m");
  ASSERT_EQ(drawn.table.rows.size(), 4u);
  EXPECT_THAT(drawn.table.rows[1],
              ElementsAre("perplexity:t, perplexity", "k", "taken out", "q=int4/token", 6.0, 5.0, 7.0, 40));
  EXPECT_THAT(
      drawn.findings,
      ElementsAre("In m, k is the most expensive part of k=int4/token: alone it changes perplexity on t by +5.00 "
                  "[+4.00, +6.00], and the whole plan by +9.00 [+8.00, +10.00], of which +4.00 [+3.00, +5.00] is "
                  "left over."));
  EXPECT_THAT(drawn.caption, HasSubstr("n: 40 of perplexity:t."));
  Json alone = json;
  alone["figures"][0]["parts"][0]["taken_out"] = nullptr;  // as `tare compare` writes it
  const FigureData without = CostsOfSites(MaterialOf({alone})).at(0);
  EXPECT_EQ(without.table.rows.size(), 3u);
  EXPECT_THAT(drawn.caption, HasSubstr("taken out"));
  EXPECT_FALSE(without.caption.contains("taken out"));
}

}  // namespace
}  // namespace tare::figures_attribution_test
