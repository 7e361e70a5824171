// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/report/figures/figures.h"
#include "tests/support/random_statistics.h"
#include "tests/support/report_material.h"
#include "tests/support/sums.h"

namespace tare::tradeoffs_test {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

TEST(ErrorTest, BitsHaveTheScalesOfGroupsAndBlocks) {
  StatisticsSet set;
  set.formats = {"int8/row", "int4/group64", "mxfp4"};
  SiteStatistics s(set.Sums(Site::kLayerOut).size());
  s.outliers.magnitudes.Add(1.0f);
  s.outliers.top.Offer(1.0f, {});
  double error = 0.01;
  for (const std::string& format : set.formats) {
    s.folds[0].sums.Add(FindSum(set, Site::kLayerOut, format + ".square").value(), 10.0);
    s.folds[0].sums.Add(FindSum(set, Site::kLayerOut, format + ".error2").value(), error);
    s.folds[0].sums.Add(FindSum(set, Site::kLayerOut, format + ".product").value(), 10.0);
    error *= 10;
  }
  set.sites.emplace(SiteKey{Site::kLayerOut, 0}, s);
  set.sites.at(SiteKey{Site::kLayerOut, 0}).folds[0].sums.Add(kSumX2, 10.0);
  Material material;
  material.statistics.emplace_back("m", set);
  material.statistics.emplace_back("without", StatisticsSet{.formats = {"int8/row"}});
  const FigureData figure = ErrorAgainstBits(material).at(0);
  ASSERT_EQ(figure.table.rows.size(), 3u);
  EXPECT_EQ(figure.table.rows[0]["bits"], 8.0);
  EXPECT_EQ(figure.table.rows[1]["bits"], 4.5);
  EXPECT_EQ(figure.table.rows[2]["bits"], 4.25);
  EXPECT_THAT(figure.caption, EndsWith("n: in the table."));
  EXPECT_THAT(figure.findings.at(0),
              HasSubstr("layer_out in m has the lowest signal-to-noise ratio, 10.0 dB with mxfp4."));
}

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(CachesFigure, JoinsThePlansThatNoOtherBeats) {
  const std::vector<FigureData> figures = CachesAgainstBits(MaterialOf({SweepOf(
      {Json::array({DivergenceCell("m", "f32", 0, 0), DivergenceCell("m", "k=int8/token", 8, 0.001),
                    DivergenceCell("m", "k=int4/token", 4.5, 0.01), DivergenceCell("m", "k=mxfp4", 4.5, 0.02),
                    DivergenceCell("m", "k=int2/token", 2.5, 0.1), DivergenceCell("m", "k=int6/token", 6, 0.5),
                    DivergenceCell("m", "weights=int4/channel", 0, 0.3), DivergenceCell("m", "k=int3/token", 0, 0.3),
                    DivergenceCell("m", "v=int8/token", 12, 0)})})}));
  ASSERT_EQ(figures.size(), 1u);
  std::vector<std::string> plans, joined;
  for (const Json& row : figures[0].table.rows) {
    plans.push_back(row.at("plan"));
    if (row.at("frontier")) joined.push_back(row.at("plan"));
  }
  EXPECT_THAT(plans,
              ElementsAre("k=int8/token", "k=int4/token", "k=mxfp4", "k=int2/token", "k=int6/token", "v=int8/token"));
  EXPECT_THAT(joined, ElementsAre("k=int8/token", "k=int4/token", "k=int2/token"));
  EXPECT_DOUBLE_EQ(figures[0].table.rows[0]["bits"].get<double>(), 12);
  EXPECT_THAT(figures[0].findings,
              ElementsAre("The least divergence of m on divergence:text, in nats per token: with 9.25 bits 0.1 "
                          "(k=int2/token), 10.2 bits 0.01 (k=int4/token) and 12 bits 0.001 (k=int8/token)."));
}

// A log has no place for 0, and older results do not count bits.
TEST(CachesFigure, SaysWhatItCannotShow) {
  const Material material = MaterialOf(
      {SweepOf({Json::array({DivergenceCell("m", "k=int8/token", 8, 0.001), DivergenceCell("m", "v=int8/token", 12, 0),
                             DivergenceCell("m", "k=int3/token", 0, 0.3)})})});
  const FigureData figure = CachesAgainstBits(material).at(0);
  EXPECT_TRUE(figure.table.rows[1].at("kld").is_null());
  EXPECT_THAT(MissingOf(figure), ElementsAre(HasSubstr("k=int3/token: its bits were not"), HasSubstr("v=int8/token")));
}

TEST(CachesFigure, NoneWithoutKeysOrValues) {
  EXPECT_THAT(CachesAgainstBits(MaterialOf({SweepOf({Json::array({DivergenceCell("m", "k=int8/token", 8, 0)})})})),
              IsEmpty());
  EXPECT_THAT(
      CachesAgainstBits(MaterialOf({SweepOf({Json::array({DivergenceCell("m", "weights=int4/channel", 0, 0.3)})})})),
      IsEmpty());
}

using ::testing::ElementsAre;

TEST(FrontierTest, HasPredictedMeasuredAndAllowedLosses) {
  const FigureData figure = Frontiers(MaterialOf({SearchOf("m")})).at(0);
  EXPECT_THAT(figure.table.rows,
              ElementsAre(ElementsAre("m", "predicted", 0, 16.0, 0.0, nullptr, nullptr, nullptr),
                          ElementsAre("m", "predicted", 1, 8.0, 0.01, nullptr, nullptr, nullptr),
                          ElementsAre("m", "predicted", 2, 4.0, 0.5, nullptr, nullptr, nullptr),
                          ElementsAre("m", "measured", 1, 8.0, 0.0125, 0.01, 0.015, "q=int8/token"),
                          ElementsAre("m", "measured", 2, 4.0, 0.75, nullptr, nullptr, "q=int4/token"),
                          ElementsAre("m", "allowed", nullptr, 16.0, 0.02, nullptr, nullptr, nullptr),
                          ElementsAre("m", "allowed", nullptr, 4.0, 0.02, nullptr, nullptr, nullptr)));
  EXPECT_THAT(figure.findings,
              ElementsAre("The cheapest measured plan of m that loses at most 0.02 nats per token has "
                          "8.00 bits per operand and loses 0.0125 [0.01, 0.015]; the prediction was 0.01."));
}

}  // namespace

}  // namespace tare::tradeoffs_test
