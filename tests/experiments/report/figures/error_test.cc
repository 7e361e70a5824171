// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/report/figures/figures.h"
#include "tests/support/random_statistics.h"
#include "tests/support/report_material.h"

namespace tare::error_test {
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
    s.folds[0].sums.Add(set.FindSum(Site::kLayerOut, format + ".square").value(), 10.0);
    s.folds[0].sums.Add(set.FindSum(Site::kLayerOut, format + ".error2").value(), error);
    s.folds[0].sums.Add(set.FindSum(Site::kLayerOut, format + ".product").value(), 10.0);
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
  EXPECT_THAT(figure.caption, EndsWith("n, values: 1 layer_out of m. Marks: m filled."));
  EXPECT_THAT(figure.findings.at(0),
              HasSubstr("layer_out in m has the lowest signal-to-noise ratio, 10.0 dB with mxfp4."));
}

}  // namespace
}  // namespace tare::error_test
