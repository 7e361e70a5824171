// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/report/figures/figures.h"
#include "tests/support/report_material.h"

namespace tare {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(AttributionTest, TheDearestSiteIsFirst) {
  const Material material = MaterialOf({SweepOf({CellsOf("a", {{16, 20}}), CellsOf("a", {{4, 21}, {8, 20}}, "q"),
                                                 CellsOf("a", {{4, 25}}, "k"), CellsOf("a", {{4, 18}}, "v")})});
  const FigureData figure = Attribution(material).at(0);
  ASSERT_EQ(figure.rows.size(), 3u);  // at the fewest bits
  EXPECT_EQ(figure.rows[0][1], "k");
  EXPECT_EQ(figure.rows[1][1], "v");  // by magnitude
  EXPECT_EQ(figure.rows[2][4], 1.0);
  EXPECT_THAT(figure.findings, ElementsAre(HasSubstr("is k: by +5")));
  EXPECT_TRUE(Bits(material).empty());
}

TEST(AttributionTest, OneSiteIsNone) {
  EXPECT_TRUE(Attribution(MaterialOf({SweepOf({CellsOf("a", {{16, 20}, {4, 21}})})})).empty());
}

}  // namespace
}  // namespace tare
