// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/report/figures/figures.h"
#include "tests/support/report_material.h"

namespace tare {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(BitsTest, EveryScaleBeginsAt16Bits) {
  const FigureData figure =
      Bits(MaterialOf({SweepOf({CellsOf("a", {{16, 20}, {8, 21}, {4, 30}}), CellsOf("b", {{16, 22}, {4, 22}})})}))
          .at(0);
  ASSERT_EQ(figure.table.rows.size(), 5u);
  EXPECT_EQ(figure.table.rows[0]["scale"], "one scale per tensor");
  EXPECT_EQ(figure.table.rows[0]["bits"], 16);
  EXPECT_TRUE(figure.table.rows[0]["low"].is_null());  // no change, no interval
  EXPECT_EQ(figure.table.rows[0]["unit"], "perplexity");
  ASSERT_TRUE(figure.table.rows[2]["low"].is_number());
  EXPECT_LT(figure.table.rows[2]["low"].get<double>(), figure.table.rows[2]["high"].get<double>());
  EXPECT_THAT(
      figure.findings,
      ElementsAre(AllOf(StartsWith("With 4 bits for attn_logits and one scale per tensor, a's perplexity on text "
                                   "rises by 10.00 ["),
                        EndsWith("], from 20.00 to 30.00.")),
                  "With 4 bits for attn_logits and one scale per tensor, b's perplexity on text stays at 22.000 "
                  "(not significant)."));
  EXPECT_THAT(figure.caption, HasSubstr("40 tokens of perplexity:text"));
}

TEST(BitsTest, TheFindingIsTheLargestChangeOfEachModel) {
  const Material material = MaterialOf({SweepOf({CellsOf("a", {{16, 20}, {4, 21}, {4, 15}, {4, 22}})})});
  EXPECT_THAT(Bits(material).at(0).findings,
              ElementsAre(AllOf(HasSubstr("falls by 5.00 ["), HasSubstr("], from 20.00 to 15.00"))));
}

TEST(BitsTest, SixteenBitsAloneAreNoFigure) {
  EXPECT_TRUE(Bits(MaterialOf({SweepOf({CellsOf("a", {{16, 20}})})})).empty());
}

}  // namespace
}  // namespace tare
