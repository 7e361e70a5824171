// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/report/figures/figures.h"
#include "tests/support/report_material.h"

namespace tare {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Json CellOf(const std::string& model, const std::string& plan, double bits, double kld) {
  Json result{{"kld", kld}, {"same_top", 1.0}, {"perplexity_ratio", 1.0}, {"tokens", 100}};
  if (bits > 0) result.update({{"key_bits", bits}, {"value_bits", 16}});
  return {{"model", model},
          {"task", "divergence:text"},
          {"key", {{"model", model}, {"weights", "77aa"}, {"plan", plan}, {"math", "f32"}}},
          {"result", result}};
}

TEST(CachesFigure, JoinsThePlansThatNoOtherBeats) {
  const std::vector<FigureData> figures = CachesAgainstBits(MaterialOf({SweepOf({Json::array(
      {CellOf("m", "f32", 0, 0), CellOf("m", "k=int8/token", 8, 0.001), CellOf("m", "k=int4/token", 4.5, 0.01),
       CellOf("m", "k=mxfp4", 4.5, 0.02), CellOf("m", "k=int2/token", 2.5, 0.1), CellOf("m", "k=int6/token", 6, 0.5),
       CellOf("m", "weights=int4/channel", 0, 0.3), CellOf("m", "k=int3/token", 0, 0.3),
       CellOf("m", "v=int8/token", 12, 0)})})}));
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
  const Material material =
      MaterialOf({SweepOf({Json::array({CellOf("m", "k=int8/token", 8, 0.001), CellOf("m", "v=int8/token", 12, 0),
                                        CellOf("m", "k=int3/token", 0, 0.3)})})});
  const FigureData figure = CachesAgainstBits(material).at(0);
  EXPECT_TRUE(figure.table.rows[1].at("kld").is_null());
  EXPECT_THAT(MissingOf(figure), ElementsAre(HasSubstr("k=int3/token: its bits were not"), HasSubstr("v=int8/token")));
}

TEST(CachesFigure, NoneWithoutKeysOrValues) {
  EXPECT_THAT(CachesAgainstBits(MaterialOf({SweepOf({Json::array({CellOf("m", "k=int8/token", 8, 0)})})})), IsEmpty());
  EXPECT_THAT(CachesAgainstBits(MaterialOf({SweepOf({Json::array({CellOf("m", "weights=int4/channel", 0, 0.3)})})})),
              IsEmpty());
}

}  // namespace
}  // namespace tare
