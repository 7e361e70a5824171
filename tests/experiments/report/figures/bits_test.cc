// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/report/figures/figures.h"
#include "tests/support/report_material.h"

namespace tare::bits_test {
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
  EXPECT_THAT(figure.caption, StartsWith("What low-bit attn_logits cost: perplexity (no unit). Bars"));
}

TEST(BitsTest, TheFindingIsTheLargestChangeOfEachModel) {
  const Material material = MaterialOf({SweepOf({CellsOf("a", {{16, 20}, {4, 21}, {4, 15}, {4, 22}})})});
  EXPECT_THAT(Bits(material).at(0).findings,
              ElementsAre(AllOf(HasSubstr("falls by 5.00 ["), HasSubstr("], from 20.00 to 15.00"))));
}

// Eight items of a task with two accuracies, at 16 bits all right.
Json ItemCells(const char* reported, const std::string& at_four = "11111110") {
  Json cells = Json::array();
  for (const auto& [plan, outcomes] :
       {std::pair<std::string, std::string>{"f32", "11111111"}, {"attn_logits=int4/tensor", at_four}}) {
    const double acc = static_cast<double>(std::ranges::count(outcomes, '1')) / 8;
    Json result{{"n", 8},
                {"acc", 0.5},
                {"acc_stderr", 0},
                {"acc_norm", acc},
                {"acc_norm_stderr", 0},
                {"outcomes", "11110000"},
                {"outcomes_norm", outcomes}};
    if (reported != nullptr) result["reported"] = reported;
    cells.push_back({{"model", "m"},
                     {"task", "choice:c"},
                     {"key", {{"model", "m"}, {"weights", "77aa"}, {"plan", plan}, {"math", "f32"}}},
                     {"result", result}});
  }
  return cells;
}

// The same in rows, panel, findings; the axis then begins below the bars: Wilson's of 8 of 8 and 7 of 8, 0.529 to 1.
TEST(BitsTest, OneAccuracyIsReported) {
  const FigureData norm = Bits(MaterialOf({SweepOf({ItemCells("acc_norm")})})).at(0);
  ASSERT_EQ(norm.table.rows.size(), 2u);
  EXPECT_EQ(norm.table.rows[1]["panel"], "choice:c, share right (acc_norm)");
  EXPECT_EQ(norm.table.rows[1]["value"], 0.875);
  EXPECT_EQ(norm.table.rows[1]["floor"], 0.5);
  EXPECT_THAT(norm.findings, ElementsAre(HasSubstr("m's accuracy (acc_norm) on c falls by 0.12")));
  for (const char* reported : {static_cast<const char*>(nullptr), "acc"}) {
    const FigureData acc = Bits(MaterialOf({SweepOf({ItemCells(reported)})})).at(0);
    EXPECT_EQ(acc.table.rows.at(1)["panel"], "choice:c, share right");
    EXPECT_EQ(acc.table.rows.at(1)["value"], 0.5);
    EXPECT_THAT(acc.findings, ElementsAre(HasSubstr("m's accuracy on c stays at 0.500")));
  }
}

TEST(BitsTest, TheAxisOfSharesIsNotAllBar) {
  const auto scale = [](const FigureData& figure) {
    return SpecificationOf(figure)["concat"][0]["layer"][0]["encoding"]["y"]["scale"];
  };
  EXPECT_EQ(scale(Bits(MaterialOf({SweepOf({ItemCells("acc_norm")})})).at(0)),
            Json({{"zero", false}, {"domainMin", 0.5}}));
  // Bars over more than half of 0 to 1, and other figures, need none.
  EXPECT_EQ(scale(Bits(MaterialOf({SweepOf({ItemCells("acc_norm", "11000000")})})).at(0)), Json({{"zero", false}}));
  EXPECT_EQ(scale(Bits(MaterialOf({SweepOf({CellsOf("a", {{16, 20}, {4, 30}})})})).at(0)), Json({{"zero", false}}));
}

TEST(BitsTest, SixteenBitsAloneAreNoFigure) {
  EXPECT_TRUE(Bits(MaterialOf({SweepOf({CellsOf("a", {{16, 20}})})})).empty());
}

}  // namespace
}  // namespace tare::bits_test
