// SPDX-License-Identifier: Apache-2.0
// Tables from cells made by hand.
#include "experiments/studies/sweep/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "experiments/tasks/perplexity.h"
#include "quant/base/message.h"
#include "quant/plan/presets.h"
#include "tests/support/sweep_cells.h"

namespace tare::sweep_table_test {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::vector<std::string> Csv(const std::vector<SweepCell>& cells) {
  return Lines(SweepCsv(cells, CompareCells(cells)));
}

TEST(TableFiles, ARowForEveryFigure) {
  SweepCell rounded = Perplexity("a", "q=int4/token,k=int4/token", 21.75);
  rounded.result.update({{"key_bits", 4.5}, {"value_bits", 16}});
  const std::vector<std::string> lines = Csv({Perplexity("a", "f32", 20.5), rounded, Choice("f32", "1100", "1111")});
  ASSERT_EQ(lines.size(), 7u);
  EXPECT_THAT(
      lines[0],
      StartsWith("model,task,site,format,granularity,bits,key_bits,value_bits,preset,plan,executed,figure,value,"
                 "stderr,low,high,change,change_stderr,change_low,change_high,n,gained,lost,p,p_holm,"));
  EXPECT_EQ(lines[1], "a,perplexity:t,,,,16,,,,f32,0,perplexity,20.5,,,,,,,,99" + std::string(17, ','));
  EXPECT_EQ(lines[2], "a,perplexity:t,,,,16,,,,f32,0,nll,3,,,,,,,,99" + std::string(17, ','));
  EXPECT_EQ(
      lines[3],
      "a,perplexity:t,\"q,k\",int4,token,4,4.5,16,,\"q=int4/token,k=int4/token\",0,perplexity,21.75,,,,1.25,,,,99" +
          std::string(17, ','));
  EXPECT_EQ(lines[5].substr(0, 55), "m,choice:c,,,,16,,,,f32,0,acc,0.5,0.25,0.15003898915214");
  EXPECT_EQ(std::ranges::count(lines[0], ','), 37);
  EXPECT_EQ(std::ranges::count(lines[5], ','), 37);
}

// Plans that are presets have their names, however they were given.
TEST(TableFiles, NamePresets) {
  const std::string sage2(FindPreset("sage2")->rules);
  SweepCell executed = Perplexity("a", std::string(FindPreset("int8")->rules), 21);
  executed.key["executed"] = true;
  const std::vector<SweepCell> cells = {Perplexity("a", "f32", 20.5), Perplexity("a", sage2, 21), executed,
                                        Perplexity("a", sage2 + ",q[l0]=f32", 21)};
  const std::vector<std::string> lines = Csv(cells);
  const nlohmann::ordered_json json = SweepJson(cells, CompareCells(cells));
  const char* const names[] = {nullptr, "sage2", "int8", nullptr};
  for (size_t i = 0; i < std::size(names); ++i) {
    EXPECT_EQ(lines[1 + 2 * i].contains(Formatted(",{},\"", names[i] == nullptr ? "" : names[i])), i > 0)
        << lines[1 + 2 * i];
    EXPECT_EQ(json["cells"][i].value("preset", ""), names[i] == nullptr ? "" : names[i]) << i;
  }
}

// acc: none gained and six lost of eight, p = 1 / 2^6; acc_norm is no hypothesis of its own.
TEST(TableFiles, ChangesCarryTheirEvidence) {
  const std::vector<SweepCell> cells = {Choice("f32", "11111110", "11111111"),
                                        Choice("attn_logits=int4/row", "10000000", "11111111")};
  EXPECT_THAT(Csv(cells)[3], HasSubstr(",8,0,6,0.015625,0.015625,"));
  const nlohmann::ordered_json json = SweepJson(cells, CompareCells(cells));
  EXPECT_EQ(json["schema"], "tare.sweep/3");
  EXPECT_TRUE(json["cells"][0]["changes"].empty());
  const nlohmann::ordered_json& acc = json["cells"][1]["changes"][0];
  EXPECT_EQ(acc["figure"], "acc");
  EXPECT_EQ(acc["value"], -0.75);
  EXPECT_EQ(acc["gained"], 0);
  EXPECT_EQ(acc["lost"], 6);
  EXPECT_EQ(acc["primary"], true);
  EXPECT_EQ(acc["p"], 0.015625);
  EXPECT_EQ(acc["p_holm"], 0.015625);
  EXPECT_EQ(acc["significant"], true);
  EXPECT_EQ(acc["too_few"], false);
  const nlohmann::ordered_json& acc_norm = json["cells"][1]["changes"][1];
  EXPECT_EQ(acc_norm["primary"], false);
  EXPECT_TRUE(acc_norm["p_holm"].is_null());
}

TEST(TableFiles, DropsNameTheModelThatTheyAreAgainst) {
  const std::vector<SweepCell> cells = {
      Choice("f32", "1111", "1111", "a"), Choice("attn_logits=int4/row", "1100", "1111", "a"),
      Choice("f32", "1111", "1111", "b"), Choice("attn_logits=int4/row", "1110", "1111", "b")};
  const nlohmann::ordered_json json = SweepJson(cells, CompareCells(cells));
  EXPECT_TRUE(json["cells"][1]["differences"].empty());
  const nlohmann::ordered_json& acc = json["cells"][3]["differences"][0];
  EXPECT_EQ(acc["against"], "a");
  EXPECT_EQ(acc["value"], 0.25);
  EXPECT_EQ(acc["gained"], 1);
  EXPECT_THAT(Csv(cells)[7], HasSubstr(",a,0.25,0.25,"));
}

std::string Table(const std::vector<SweepCell>& cells) { return SweepTable(cells, CompareCells(cells)); }

std::string Row(const char* plan, const char* value, const char* change = "") {
  std::string text = Formatted("  {:<28}{:<24}{}", plan, value, change);
  text.resize(text.find_last_not_of(' ') + 1);
  return text;
}

TEST(TableTest, RowsAreThePlansOfAModel) {
  const std::vector<SweepCell> cells = {Perplexity("a", "f32", 20.5), Perplexity("a", "attn_logits=int4/row", 21.75),
                                        Perplexity("b", "f32", 1000.125),
                                        Perplexity("b", "attn_logits=int4/row", 1000.125)};
  EXPECT_THAT(Lines(Table(cells)),
              ElementsAre("", "perplexity:t, perplexity",                                 //
                          "", "a", Row("plan", "perplexity", "change from unquantized"),  //
                          Row("unquantized", "20.500"), Row("attn_logits=int4/row", "21.750", "+1.250"), "", "b",
                          Row("plan", "perplexity", "change from unquantized"),  //
                          Row("unquantized", "1000.125"), Row("attn_logits=int4/row", "1000.125", "+0.000"), "",
                          "change of b minus that of a", Row("plan", "the changes", "difference"),
                          Row("attn_logits=int4/row", "+0.000, +1.250", "-1.250")));
}

// By d = 0.1 0.2 0.3 0.4 0.5 per token of the loss, A = 2 and B = 2.3: of perplexity, g = e^B b - e^A a about their
// means, with a the same in every window.
TEST(TableTest, ChangesOfPerplexityArePairedByWindow) {
  std::vector<double> before(30, 20.0), after, changes;
  for (int i = 0; i < 30; ++i) after.push_back(21 + i % 5), changes.push_back(0.1 * (1 + i % 5));
  const std::vector<SweepCell> cells = {Perplexity("a", "f32", std::exp(2), before),
                                        Perplexity("a", "attn_logits=int4/row", std::exp(2.3), after)};
  const std::string change =
      WithError(std::exp(2.3) - std::exp(2), ErrorOfMean(changes, Units::kOfText)->error * std::exp(2.3), "+.3f") +
      " *";
  EXPECT_EQ(Lines(Table(cells)).back(), Row("attn_logits=int4/row", "9.974", change.c_str()));
}

// Paired: of 25 items the quantized run loses ten and wins five; sum of d -5, of d^2 15: s^2 = (15 - 1) / 24, error
// sqrt(s^2 / 25) = 0.153. As if unpaired it would be sqrt(2 * 0.25^2) = 0.354.
TEST(TableTest, AccuraciesChangeByPairedDifferences) {
  const std::vector<SweepCell> cells = {Choice("f32", Times(5, "11010"), "11111"),
                                        Choice("attn_logits=int4/row", Times(5, "10001"), "11111")};
  const std::vector<std::string> lines = Lines(Table(cells));
  ASSERT_EQ(lines.size(), 19u);
  EXPECT_EQ(lines[1], "choice:c, acc");
  EXPECT_EQ(lines[5], Row("unquantized", "0.60 +/- 0.25"));
  EXPECT_EQ(lines[6], Row("attn_logits=int4/row", "0.40 +/- 0.25", "-0.20 +/- 0.15"));
  EXPECT_EQ(lines[10], "choice:c, acc_norm");
  EXPECT_EQ(lines[11], "  share of items right, by log-likelihood per character");
}

// With the same items right by both, one table: that of the figure that is tested.
TEST(TableTest, AccuraciesWithTheSameItemsAreOneTable) {
  const std::string before = Times(20, "11110"), after = Times(20, "10000");
  std::vector<SweepCell> cells = {Choice("f32", before, before), Choice("attn_logits=int4/row", after, after)};
  for (const char* primary : {"acc", "acc_norm"}) {
    for (SweepCell& cell : cells) cell.figures.reported = primary;
    const std::string text = Table(cells);
    EXPECT_THAT(text, testing::StartsWith("\nchoice:c, acc and acc_norm\n  the same items are right by both\n\nm\n"));
    EXPECT_THAT(text, HasSubstr("-0.600 +/- 0.049 *")) << primary;
    EXPECT_EQ(text.find("choice:c", 5), text.npos) << "a table twice";
  }
  cells[1] = Choice("attn_logits=int4/row", after, Times(20, "01000"));  // as many, but others
  EXPECT_THAT(Table(cells), HasSubstr("\nchoice:c, acc_norm\n"));
}

// Without an unquantized run there is nothing to change from.
TEST(TableTest, WithoutAnUnquantizedRunAColumnIsLeftOutAndTheLineSaysWhy) {
  const SweepCell four = Perplexity("a", "attn_logits=int4/row", 21.75);
  EXPECT_THAT(Lines(Table({four})),
              ElementsAre("", "perplexity:t, perplexity", "", "a", Row("plan", "perplexity"),
                          Row("attn_logits=int4/row", "21.750"),
                          "  no changes: the unquantized model was not run; try 16 in --bits, or plan f32"));
  EXPECT_THAT(Table({Perplexity("a", "f32", 20.5)}), Not(HasSubstr("change")));
}

// No item was wrong, none changed: s = 0 is no error bar.
TEST(TableTest, FewItemsHaveIntervals) {
  const std::vector<SweepCell> cells = {Choice("f32", "11111", "11111"),
                                        Choice("attn_logits=int4/row", "11111", "11111")};
  const std::vector<std::string> lines = Lines(Table(cells));
  EXPECT_EQ(lines[6], Row("unquantized", "1.00 [0.57, 1.00]"));
  EXPECT_EQ(lines[7], Row("attn_logits=int4/row", "1.00 [0.57, 1.00]", "+0.00 [-0.40, +0.40] ?"));
}

// Sixty of 100 items lost, none gained: significant, and its mark explained. What 100 items show with as many changed
// is significance/inference.h's.
TEST(TableTest, MarksSayWhatIsSignificant) {
  const std::vector<SweepCell> cells = {Choice("f32", Times(20, "11110"), Times(100, "1")),
                                        Choice("attn_logits=int4/row", Times(20, "10000"), Times(100, "1"))};
  const std::vector<std::string> lines = Lines(Table(cells));
  EXPECT_EQ(lines[6], Row("attn_logits=int4/row", "0.20 +/- 0.25", "-0.600 +/- 0.049 *"));
  EXPECT_EQ(lines[7], "  a true change of 0.216 shows (p < 0.05) in 4 runs of 5;");
  EXPECT_EQ(lines[8], "  half of it needs 408 items");
  const std::string legend = SweepLegend(CompareCells(cells));
  EXPECT_THAT(legend, HasSubstr("\n* significant: p < 0.05 after Holm over 1 change,\n"
                                "of each task's primary figure; the others are not tested\n"));
  EXPECT_THAT(SweepLegend(CompareCells({cells[0]})), Not(HasSubstr("significant")));
}

TEST(TableTest, RowsSayWhatLooksAhead) {
  std::vector<SweepCell> cells = {Perplexity("a", "f32", 20.5), Perplexity("a", "attn_logits=int4/row", 20.75)};
  EXPECT_EQ(Lines(Table(cells)).back(), Row("attn_logits=int4/row", "20.750", "+0.250"));
  EXPECT_THAT(SweepLegend(CompareCells(cells)), Not(HasSubstr("lookahead")));
  cells.push_back(Perplexity("a", "attn_logits=int4/tensor", 21.75));
  EXPECT_EQ(Lines(Table(cells)).back(), Row("attn_logits=int4/tensor ^", "21.750", "+1.250"));
  EXPECT_THAT(SweepLegend(CompareCells(cells)),
              HasSubstr("\n^ lookahead: a scale may span later tokens than the query\n"));
}

TEST(TableTest, PowerOverPlansSaysSo) {
  const std::vector<SweepCell> cells = {Choice("f32", Times(20, "11110"), Times(100, "1")),
                                        Choice("attn_logits=int4/row", Times(20, "10000"), Times(100, "1")),
                                        Choice("attn_logits=int8/row", Times(20, "11100"), Times(100, "1"))};
  const std::vector<std::string> lines = Lines(Table(cells));
  EXPECT_THAT(lines[8], testing::ContainsRegex("^  a true change of 0.1.* to 0.216 shows .p < 0.05. in 4 runs of 5;$"));
  EXPECT_THAT(lines[9], testing::ContainsRegex("^  half of it needs [0-9 to]+ items$"));
}

// The interval is not made from the printed error.
TEST(TableTest, TheLegendSaysWhereTheIntervalIs) {
  const std::vector<double> few(5, 20.0);
  const auto legend = [&](const std::vector<double>& losses) {
    return SweepLegend(CompareCells(
        {Perplexity("a", "f32", std::exp(2), losses), Perplexity("a", "attn_logits=int4/row", std::exp(2.3), losses)}));
  };
  const char* const both_ends =
      "\nan interval of few windows is longer than two errors either way, and uneven if\n"
      "they are skewed: CSV, JSON and report have both ends\n";
  std::vector<double> many(20, 20.0);
  many[3] = 22;
  EXPECT_THAT(SweepLegend(CompareCells({Perplexity("a", "f32", std::exp(2), std::vector<double>(20, 20.0)),
                                        Perplexity("a", "attn_logits=int4/row", std::exp(2.3), many)})),
              HasSubstr(both_ends));
  EXPECT_THAT(legend(few), Not(HasSubstr(both_ends)));  // has none
  EXPECT_THAT(legend(few), HasSubstr("no errors of fewer than 20 windows or samples: try"));
  EXPECT_THAT(legend(std::vector<double>(20, 20.0)),
              Not(HasSubstr("no errors of fewer than 20 windows or samples: try")));
}

SweepCell Divergence(const std::string& plan, double kld) {
  Json result{{"tokens", 200},
              {"windows", 20},
              {"kld", kld},
              {"kld_largest", kld},
              {"same_top", 0.9},
              {"perplexity_ratio", 1.0},
              {"window_tokens", std::vector(20, 10)},
              {"window_same_tops", std::vector(20, 9)},
              {"window_log_ratios", std::vector(20, 0.0)},
              {"delta_p", 0.0},
              {"delta_p_rms", 0.0},
              {"delta_p_stderr", Json()}};
  for (const char* share : {"kld_median", "kld_90", "kld_95", "kld_99", "kld_99_9"}) result[share] = kld;
  for (int i = 0; i < 20; ++i) result["window_klds"].push_back(kld * (5 + i % 11));
  return Cell("a", "divergence:t", plan, result, kDivergenceTask);
}

// What is true of one cell only does not stand above all of them; alone it does.
TEST(TableTest, LinesAboveRowsAreTrueOfAllOfThem) {
  const SweepCell exact = Divergence("f32", 0), planned = Divergence("attn_logits=int4/row", 0.01);
  const std::vector<std::string> lines = Lines(Table({exact, planned}));
  EXPECT_EQ(lines[5], "  20 windows");
  EXPECT_THAT(lines[6], StartsWith("  plan "));
  EXPECT_EQ(Lines(Table({exact}))[6], "  no prediction changed");
  EXPECT_THAT(Lines(Table({planned}))[6], StartsWith("  nats: median 1.0e-02"));
}

TEST(TableTest, TheLegendSaysWhyADivergenceHasNoStar) {
  EXPECT_THAT(SweepLegend(CompareCells({Divergence("f32", 0), Divergence("attn_logits=int4/row", 0.01)})),
              HasSubstr("\nno star for a divergence's change from 0: it cannot be 0, so there is no test\n"));
  EXPECT_THAT(SweepLegend(CompareCells({Perplexity("a", "f32", 3), Perplexity("a", "attn_logits=int4/row", 4)})),
              Not(HasSubstr("no star")));
}

TEST(TableTest, TwoModelsHaveTheDifferenceOfTheirDrops) {
  const std::vector<SweepCell> cells = {Choice("f32", Times(20, "11110"), Times(100, "1"), "a"),
                                        Choice("attn_logits=int4/row", Times(20, "10000"), Times(100, "1"), "a"),
                                        Choice("f32", Times(20, "11111"), Times(100, "1"), "b"),
                                        Choice("attn_logits=int4/row", Times(20, "11110"), Times(100, "1"), "b")};
  const std::string table = Table(cells);
  EXPECT_THAT(table, HasSubstr("\nchange of b minus that of a\n" + Row("plan", "the changes", "difference") + "\n" +
                               Row("attn_logits=int4/row", "-0.200, -0.600", "+0.400 +/- 0.080 *") + "\n"));
  EXPECT_THAT(SweepLegend(CompareCells(cells)), HasSubstr("after Holm over 2 changes, and 1 difference,\n"
                                                          "of each task's primary figure; the others are not tested\n"
                                                          "one pair of models is one sample of training"));
}

TEST(TableTest, NoChangeIsShownWithoutACellOf16Bits) {
  const std::vector<SweepCell> cells = {Perplexity("a", "attn_logits=int8/row", 3.0), Perplexity("b", "f32", 4.0)};
  EXPECT_EQ(Lines(Table(cells))[5], Row("attn_logits=int8/row", "3.000"));
}

// The value stands below its plan, which is broken at commas.
TEST(TableTest, LongPlansHaveLinesOfTheirOwn) {
  const std::string rules = "q=int4/token+smooth,k=int4/token+smooth,v=int8/block64.channel+smooth";
  const std::vector<std::string> lines = Lines(Table({Perplexity("a", rules + ",attn_logits=int4/tensor", 3.0)}));
  EXPECT_EQ(lines[5], "  " + rules + ",");
  EXPECT_EQ(lines[6], "  attn_logits=int4/tensor ^");
  EXPECT_EQ(lines[7], Row("", "3.000"));
  for (const std::string& line : lines) EXPECT_LE(line.size(), 80u);
}

TEST(TableTest, ALineSaysHowAModelWasMeasured) {
  Json result{{"nll", 3.0},   {"perplexity", 20.0}, {"tokens", 99}, {"nll_stderr", 0.5},       {"windows", 2},
              {"window", 64}, {"stride", 63},       {"bos", true},  {"cut_to_positions", true}};
  const std::vector<std::string> lines = Lines(Table({Cell("a", "perplexity:t", "f32", result, kPerplexityTask)}));
  EXPECT_EQ(lines[4], "  2 windows of 64 (all of the model's positions), stride 63, each after <s>: 99 tokens scored");
}

TEST(TableTest, EachTaskHasABlockOfItsOwn) {
  const std::string text = Table({Perplexity("m", "f32", 3.0), Choice("f32", "1", "0")});
  EXPECT_LT(text.find("perplexity:t, perplexity"), text.find("choice:c, acc\n"));
  EXPECT_NE(text.find("choice:c, acc_norm\n"), std::string::npos);
  EXPECT_EQ(Table({}), "");
}

}  // namespace

}  // namespace tare::sweep_table_test
