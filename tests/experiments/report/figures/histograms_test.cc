// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/report/figures/figures.h"
#include "tests/support/random_statistics.h"
#include "tests/support/report_material.h"

namespace tare::histograms_test {
namespace {

using ::testing::ElementsAre;

TEST(HistogramsTest, SharesAreOfAllValuesAndCodesEndAtTheLargest) {
  Material material;
  material.statistics.emplace_back("m", RandomStatistics());
  const FigureData figure = Histograms(material).at(0);
  double shares = 0;
  float last = 0;
  for (const Json& row : figure.table.rows) {
    if (row["kind"] == "values") shares += row["share"].get<double>();
    if (row["kind"] == "int4") last = row["magnitude"];
  }
  EXPECT_NEAR(shares, 1.0, 1e-9);
  EXPECT_EQ(std::ranges::count_if(figure.table.rows, [](const Json& row) { return row["kind"] == "int6"; }), 31);
  const auto& sites = material.statistics[0].set.sites;
  EXPECT_EQ(last, std::max(sites.at({Site::kLayerOut, 0}).outliers.absmax(),
                           sites.at({Site::kLayerOut, 1}).outliers.absmax()));
}

TEST(HistogramsTest, FindsTheShareThatBecomesZero) {
  StatisticsSet set;
  SiteStatistics s;
  for (const float value : {7.0f, 0.4f, 0.4f, 2.0f}) {
    s.outliers.magnitudes.Add(value);
    s.outliers.top.Offer(value, {});
  }
  set.sites.emplace(SiteKey{Site::kAttnLogits, 0, 0, 1}, s);
  Material material;
  material.statistics.emplace_back("m", set);
  EXPECT_THAT(Histograms(material).at(0).findings,
              ElementsAre("With one scale for attn_logits of m, int4 rounds 50.0 % of the values to 0."));
}

}  // namespace
}  // namespace tare::histograms_test
