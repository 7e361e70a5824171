// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/report/figures/figures.h"
#include "tests/support/report_material.h"

namespace tare::caches_test {
namespace {

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

}  // namespace
}  // namespace tare::caches_test
