// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/report/figures/figures.h"
#include "tests/support/report_material.h"

namespace tare::sweeps_test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
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
                        EndsWith("] over 24 windows, from 20.00 to 30.00.")),
                  "With 4 bits for attn_logits and one scale per tensor, b's perplexity on text stays at 22.000 "
                  "(not significant)."));
  EXPECT_THAT(figure.caption, HasSubstr("40 tokens of perplexity:text"));
  EXPECT_THAT(figure.caption, StartsWith("What low-bit attn_logits cost. Bars"));
}

// The usual length is no guess at how the model was trained.
TEST(BitsTest, TheWindowIsSaid) {
  nlohmann::ordered_json sweep = SweepOf({CellsOf("a", {{16, 20}, {4, 30}})});
  for (auto& cell : sweep["cells"]) {
    cell["key"]["window"] = 0;
    cell["result"].update({{"window", 512}, {"windows", 24}});
  }
  const Material material = MaterialOf({sweep});
  EXPECT_THAT(Bits(material).at(0).caption,
              EndsWith(" n: 40 tokens of perplexity:text in 24 windows of 512 (the default, whatever the model was "
                       "trained on: --window sets it)."));
  EXPECT_THAT(material.files.at(0).says,
              Contains(std::pair<std::string, std::string>("window", "512, the default of --window")));
  sweep["cells"][1]["key"]["window"] = 512;
  sweep["cells"][0]["key"]["window"] = 512;
  EXPECT_THAT(Bits(MaterialOf({sweep})).at(0).caption, EndsWith(" in 24 windows of 512."));
}

TEST(BitsTest, TheFindingIsTheLargestChangeOfEachModel) {
  const Material material = MaterialOf({SweepOf({CellsOf("a", {{16, 20}, {4, 21}, {4, 15}, {4, 22}})})});
  EXPECT_THAT(Bits(material).at(0).findings,
              ElementsAre(AllOf(HasSubstr("falls by 5.00 ["), HasSubstr("] over 24 windows, from 20.00 to 15.00"))));
}

TEST(BitsTest, WithoutA16BitRunTheFindingSaysWhatIsMissing) {
  EXPECT_THAT(
      Bits(MaterialOf({SweepOf({CellsOf("a", {{8, 21}, {4, 30}})})})).at(0).findings,
      ElementsAre("With 4 bits for attn_logits and one scale per tensor, a's perplexity on text is 30.000; what "
                  "this costs is not known: the unquantized model was not run."));
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

// Rows, panel and findings show one accuracy; the axis begins below Wilson's bars of 8 of 8 and 7 of 8, 0.529 to 1.
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

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

// The cells of a model at 16 and at 4 bits, with the window losses of LossesOf, raised by `more` at 4 bits.
Json Cells(const std::string& model, double at_four, double more) {
  Json cells = CellsOf(model, {{16, 20}, {4, at_four}});
  int i = 0;
  for (Json& loss : cells[1]["result"]["window_losses"]) loss = loss.get<double>() + more + 0.01 * (i++ % 5);
  return cells;
}

TEST(DifferencesTest, ASignificantDifferenceIsSaidWithItsSign) {
  const FigureData more = Differences(MaterialOf({SweepOf({Cells("a", 21, 0), Cells("b", 25, 3)})})).at(0);
  EXPECT_THAT(more.findings, ElementsAre(MatchesRegex(
                                 "With 4 bits for attn_logits and one scale per tensor, b loses 4\\.0.* \\[.*\\] "
                                 "more perplexity on text than a over 24 windows \\(p < 0\\.001 after Holm\\)\\.")));
  const FigureData less = Differences(MaterialOf({SweepOf({Cells("a", 25, 3), Cells("b", 21, 0)})})).at(0);
  EXPECT_THAT(less.findings, ElementsAre(HasSubstr("b loses 4.0")));
  EXPECT_THAT(less.findings,
              ElementsAre(HasSubstr("] less perplexity on text than a over 24 windows (p < 0.001 after Holm).")));
}

TEST(DifferencesTest, RowsHaveBothChangesAndTheVerdict) {
  const FigureData figure = Differences(MaterialOf({SweepOf({Cells("a", 21, 0), Cells("b", 25, 3)})})).at(0);
  ASSERT_EQ(figure.table.rows.size(), 1u);
  const Json& row = figure.table.rows[0];
  EXPECT_EQ(row["panel"], "perplexity:text, perplexity");
  EXPECT_EQ(row["plan"], "attn_logits=int4/tensor");
  EXPECT_EQ(row["model"], "b");
  EXPECT_EQ(row["change"], 5.0);
  EXPECT_EQ(row["first"], 1.0);
  EXPECT_EQ(row["difference"], 4.0);
  EXPECT_LT(row["low"].get<double>(), 4.0);
  EXPECT_GT(row["high"].get<double>(), 4.0);
  EXPECT_EQ(row["verdict"], "significant");
}

TEST(DifferencesTest, WithoutASignificantOneTheFindingSaysSo) {
  const FigureData figure = Differences(MaterialOf({SweepOf({Cells("a", 21, 0), Cells("b", 21, 0)})})).at(0);
  EXPECT_THAT(figure.findings, ElementsAre("The models' changes do not differ significantly: of 1 difference tested, "
                                           "none has p < 0.05 after Holm."));
  EXPECT_EQ(figure.table.rows.at(0)["verdict"], "not significant");
}

// 40 items, all right at 16 bits, of which 4 bits lose some.
Json Items(const std::string& model, size_t lost) {
  Json cells = Json::array();
  for (const auto& [plan, wrong] : {std::pair<std::string, size_t>{"f32", 0}, {"attn_logits=int4/row", lost}}) {
    const std::string outcomes = std::string(wrong, '0') + std::string(40 - wrong, '1');
    const double acc = static_cast<double>(40 - wrong) / 40;
    cells.push_back({{"model", model},
                     {"task", "choice:c"},
                     {"key", {{"model", model}, {"weights", "77aa"}, {"plan", plan}, {"math", "f32"}}},
                     {"result",
                      {{"n", 40},
                       {"acc", acc},
                       {"acc_stderr", 0.01},
                       {"acc_norm", acc},
                       {"acc_norm_stderr", 0.01},
                       {"reported", "acc"},
                       {"outcomes", outcomes},
                       {"outcomes_norm", outcomes}}}});
  }
  return cells;
}

TEST(DifferencesTest, AccuraciesAreKept) {
  const FigureData figure = Differences(MaterialOf({SweepOf({Items("a", 24), Items("b", 0)})})).at(0);
  EXPECT_THAT(figure.findings,
              ElementsAre(MatchesRegex("With 4 bits for attn_logits and one scale per row, b keeps "
                                       "0\\.600 \\[.*\\] more accuracy on c than a over 40 items \\(p .*\\)\\.")));
}

TEST(DifferencesTest, OnlyAFewAreSentences) {
  Json cells = Json::array();
  for (const char* model : {"a", "b"}) {
    for (const char* rule : {"q=int4", "k=int4", "v=int4", "q=int6", "k=int6", "v=int6", "q=int8"}) {
      Json some = Cells(model, model[0] == 'a' ? 21 : 25, model[0] == 'a' ? 0 : 3);
      some[1]["key"]["plan"] = std::string(rule) + "/tensor";
      if (rule != std::string("q=int4")) some.erase(0);
      cells.insert(cells.end(), some.begin(), some.end());
    }
  }
  const FigureData figure = Differences(MaterialOf({SweepOf({cells})})).at(0);
  ASSERT_EQ(figure.table.rows.size(), 7u);
  ASSERT_EQ(figure.findings.size(), 6u);
  EXPECT_EQ(figure.findings.back(),
            "Of the 7 differences between the models' changes that were tested, 2 more are "
            "significant; the figure's table has all.");
}

TEST(DifferencesTest, OneModelHasNone) {
  EXPECT_TRUE(Differences(MaterialOf({SweepOf({CellsOf("a", {{16, 20}, {4, 30}})})})).empty());
}

}  // namespace

}  // namespace tare::sweeps_test
