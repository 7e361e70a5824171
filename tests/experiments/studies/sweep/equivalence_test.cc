// SPDX-License-Identifier: Apache-2.0
// Against the two one-sided tests themselves. How often verdicts are right: tests/experiments/calibration_test.cc.
#include "experiments/studies/sweep/equivalence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "experiments/tasks/divergence.h"
#include "quant/base/message.h"
#include "tests/support/sweep_cells.h"

namespace tare::equivalence_test {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Losses of 20 windows of ten tokens, and how they change: by 0.5 to 2.5 times `size` per token.
SweepCell Losses(const std::string& plan, double size) {
  std::vector<double> losses;
  double mean = 0;
  for (int i = 0; i < 20; ++i) {
    losses.push_back(20 + i % 3 + 10 * size * (0.5 + i * 7 % 5 * 0.5));
    mean += losses.back() / 200;
  }
  return Perplexity("a", plan, std::exp(mean), losses);
}

Comparison ChangeOf(const SweepCell& before, const SweepCell& after) {
  return CompareCells({before, after}).changes.at(0);
}
const char* const kPlan = "attn_logits=int4/row";

TEST(ParseMargin, APercentage) {
  EXPECT_EQ(ParseMargin("0.5%"), 0.005);
  EXPECT_EQ(ParseMargin("2%"), 0.02);
}

TEST(ParseMargin, RefusesOthers) {
  for (const char* text : {"", "%", "0.5", "0.005", "-0.5%", "0%", "-0%", "100%", "1e9%", "nan%", "inf%", "0.5 %",
                           "0.5%%", "+1%", "half%", " 1%"}) {
    try {
      ParseMargin(text);
      ADD_FAILURE() << text;
    } catch (const UsageError& error) {
      EXPECT_EQ(error.what(),
                "--equivalent: got '" + std::string(text) + "', expected a percentage above 0 and below 100; try 0.5%");
    }
  }
}

TEST(Verdict, WhereTheIntervalLies) {
  const auto verdict = [](double low, double high) { return std::string(VerdictAt(0.01, {.loss = {{low, high}}})); };
  EXPECT_EQ(verdict(-0.009, 0.009), "lossless");
  EXPECT_EQ(verdict(0.001, 0.009), "lossless");  // there is a loss, and it is small
  EXPECT_EQ(verdict(0, 0), "lossless");
  EXPECT_EQ(verdict(-0.009, 0.011), "not shown");
  EXPECT_EQ(verdict(-0.02, 0.02), "not shown");
  EXPECT_EQ(verdict(0.009, 0.01), "not shown");  // at the margin is not within
  EXPECT_EQ(verdict(0.011, 0.02), "worse");
  EXPECT_EQ(verdict(-0.02, -0.011), "better");
  EXPECT_EQ(verdict(kNaN, kNaN), "not shown");
  EXPECT_EQ(verdict(-0.009, kNaN), "not shown");
  EXPECT_STREQ(VerdictAt(0.01, {}), "not shown");
}

// ln of the ratio by windows of equal size is the mean change of the loss: each one-sided test at 5 %, by its p.
TEST(Verdict, IsThatOfBothOneSidedTests) {
  for (const double size : {0.0002, 0.002, 0.004, 0.008, 0.02}) {
    const Comparison change = ChangeOf(Losses("f32", 0), Losses(kPlan, size));
    std::vector<double> changes;
    double mean = 0;
    for (int i = 0; i < 20; ++i) mean += changes.emplace_back(size * (0.5 + i * 7 % 5 * 0.5)) / 20;
    const MeanError error = ErrorOfMean(changes, Units::kOfText).value();
    EXPECT_NEAR(error.P(mean - std::log1p(change.loss->low)), 2 * kLevel, 1e-9);
    EXPECT_NEAR(error.P(mean - std::log1p(change.loss->high)), 2 * kLevel, 1e-9);
    for (const double margin : {0.001, 0.005, 0.01, 0.05}) {
      const auto shown = [&](double bound, bool above) {
        const double of = mean - bound;
        return (of > 0) == above && error.P(of) / 2 < kLevel;
      };
      const bool lossless = shown(std::log1p(-margin), true) && shown(std::log1p(margin), false);
      EXPECT_EQ(std::string(VerdictAt(margin, change)), lossless                          ? "lossless"
                                                        : shown(std::log1p(margin), true) ? "worse"
                                                                                          : "not shown")
          << size << " " << margin;
    }
  }
}

TEST(Verdict, OfItemsIsBonettAndPrices) {
  const std::string before = Times(190, "1") + Times(10, "0"), after = Times(184, "1") + Times(16, "0");
  const Comparison change = ChangeOf(Choice("f32", before, before), Choice(kPlan, after, after));
  const Interval gain = change.items->BonettPrice(0.9);
  EXPECT_EQ(change.loss->low, -gain.high);
  EXPECT_EQ(change.loss->high, -gain.low);
  EXPECT_GT(change.loss->low, 0);  // six fewer right: a loss
  EXPECT_STREQ(VerdictAt(0.06, change), "lossless");
  EXPECT_STREQ(VerdictAt(0.02, change), "not shown");
}

TEST(Verdict, HostileFigures) {
  // One window; the same losses; one change of all, which has no error; a loss that is not finite.
  EXPECT_FALSE(ChangeOf(Perplexity("a", "f32", 7, {20}), Perplexity("a", kPlan, 8, {21})).loss);
  const Comparison same = ChangeOf(Losses("f32", 0.01), Losses(kPlan, 0.01));
  EXPECT_STREQ(VerdictAt(0.0001, same), "lossless");
  const std::vector<double> equal(20, 20.0), shifted(20, 21.0);
  EXPECT_FALSE(ChangeOf(Perplexity("a", "f32", 7, equal), Perplexity("a", kPlan, 8, shifted)).loss);
  std::vector<double> broken = equal;
  broken[3] = kNaN;
  EXPECT_STREQ(VerdictAt(0.5, ChangeOf(Perplexity("a", "f32", 7, equal), Perplexity("a", kPlan, 8, broken))),
               "not shown");
  broken[3] = std::numeric_limits<double>::infinity();
  EXPECT_STREQ(VerdictAt(0.5, ChangeOf(Perplexity("a", "f32", 7, equal), Perplexity("a", kPlan, 8, broken))),
               "not shown");
}

TEST(EquivalenceText, SaysWhichOfBothWasShown) {
  Comparison change{.loss = {{-0.001, 0.0031}}};
  const auto text = [&](double margin) {
    return EquivalenceText(margin, change, Perplexity("a", "f32", 7).figures.list[0].keys);
  };
  EXPECT_EQ(text(0.005), "lossless within 0.5 % (-0.1 to 0.31)");
  EXPECT_EQ(text(0.003), "equivalence within 0.3 % is not shown (-0.1 to 0.31)");
  change.p_holm = 0.2;
  EXPECT_EQ(text(0.003), "neither a difference nor equivalence within 0.3 % is shown (-0.1 to 0.31)");
  change.p_holm = 0.01;
  EXPECT_EQ(text(0.003), "a difference is shown, equivalence within 0.3 % is not (-0.1 to 0.31)");
  change.loss = {{0.012, 0.015}};
  EXPECT_EQ(text(0.01), "worse by more than 1 % (1.2 to 1.5)");
  change.loss.reset(), change.p_holm.reset();
  EXPECT_EQ(text(0.01), "equivalence within 1 % is not shown");
}

// A divergence is no share of anything, and an accuracy is itself a share.
TEST(EquivalenceText, IsInTheFiguresOwnUnit) {
  const Comparison change{.loss = {{-0.001, 0.0031}}};
  EXPECT_EQ(EquivalenceText(0.005, change, *ShownFigure("divergence:t", "kld")),
            "lossless within 0.005 nats per token (-0.001 to 0.0031)");
  EXPECT_EQ(EquivalenceText(0.003, change, *ShownFigure("choice:c", "acc")),
            "equivalence within 0.3 points is not shown (-0.1 to 0.31)");
}

TEST(SweepTables, VerdictsOnlyWhereAsked) {
  const std::vector<SweepCell> cells{Losses("f32", 0), Losses(kPlan, 0.001)};
  Comparisons all = CompareCells(cells);
  EXPECT_FALSE(SweepJson(cells, all).contains("margin"));
  EXPECT_EQ(SweepCsv(cells, all).find("equivalence"), std::string::npos);
  all.margin = 0.005;
  const nlohmann::ordered_json json = SweepJson(cells, all);
  EXPECT_EQ(json["margin"], 0.005);
  const nlohmann::ordered_json& changes = json["cells"][1]["changes"];
  EXPECT_EQ(changes[0]["equivalence"]["verdict"], "lossless");
  EXPECT_EQ(changes[0]["equivalence"]["high"], all.changes[0].loss->high);
  EXPECT_FALSE(changes[1].contains("equivalence"));  // nll is not the task's primary figure
  const std::vector<std::string> lines = Lines(SweepCsv(cells, all));
  EXPECT_THAT(lines[0], EndsWith(",equivalence_margin,equivalence_verdict,equivalence_low,equivalence_high"));
  EXPECT_THAT(lines[1], EndsWith(",,,,"));
  EXPECT_THAT(lines[3], HasSubstr(",0.005,lossless,"));
  EXPECT_THAT(SweepTable(cells, all), HasSubstr("\n    lossless within 0.5 % ("));
  EXPECT_THAT(SweepLegend(all), HasSubstr("\nlossless: by two one-sided tests"));
}

}  // namespace
}  // namespace tare::equivalence_test
