// SPDX-License-Identifier: Apache-2.0
// Against the two one-sided tests themselves. How often verdicts are right: tests/experiments/calibration_test.cc.
#include "experiments/studies/sweep/comparison.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/tasks/perplexity.h"
#include "quant/base/message.h"
#include "tests/support/sweep_cells.h"

namespace tare::comparison_test {
namespace {

// acc of 60 items: 3 gained, 12 lost.
const std::string kBefore = Times(45, "1") + Times(12, "1") + Times(3, "0");
const std::string kAfter = Times(45, "1") + Times(12, "0") + Times(3, "1");

OutcomeChanges ChangesOf(std::string_view before, std::string_view after) {  // '1' marks a right item
  OutcomeChanges changes;
  for (size_t i = 0; i < before.size(); ++i) changes.Add(after[i] - before[i]);
  return changes;
}

TEST(Comparison, ItemsByMcNemar) {
  const std::vector<SweepCell> cells = {Choice("f32", kBefore, kBefore),
                                        Choice("attn_logits=int4/row", kAfter, kBefore)};
  const Comparisons all = CompareCells(cells);
  ASSERT_EQ(all.changes.size(), 2u);
  EXPECT_TRUE(all.drops.empty());
  const Comparison& acc = all.changes[0];
  EXPECT_EQ(acc.cell, 1u);
  EXPECT_EQ(acc.figure, 0u);
  EXPECT_NEAR(acc.value, -9.0 / 60, 1e-15);
  EXPECT_EQ(acc.items->gained, 3);
  EXPECT_EQ(acc.items->lost, 12);
  EXPECT_NEAR(*acc.p, 697.0 / 32768, 1e-15);  // inference_test.cc
  EXPECT_EQ(*acc.p_holm, *acc.p) << "acc_norm is no hypothesis of its own";
  EXPECT_TRUE(acc.Significant());
  EXPECT_FALSE(acc.TooFew());
  EXPECT_EQ(acc.interval->low, ChangesOf(kBefore, kAfter).BonettPrice().low);
  EXPECT_EQ(*all.changes[1].p, 1);
  EXPECT_FALSE(all.changes[1].p_holm || all.changes[1].TooFew());
  const std::vector<SweepFigure> figures = FiguresOf(cells, all);
  ASSERT_EQ(figures.size(), 4u);
  EXPECT_EQ(figures[3].change, &all.changes[1]);
  EXPECT_EQ(figures[3].cell, &cells[1]);
  EXPECT_EQ(figures[3].figure, &cells[1].figures.list[1]);
  EXPECT_EQ(figures[0].change, nullptr);
  EXPECT_EQ(figures[3].drop, nullptr);
}

std::vector<double> FourTimes(const std::vector<double>& losses) {
  std::vector<double> all;
  for (int i = 0; i < 4; ++i) all.insert(all.end(), losses.begin(), losses.end());
  return all;
}

// By d = 0.1 .. 0.5 per token, mean 0.3: all three from one error (mean_error.h). nll is not the task's primary figure:
// Holm leaves it.
TEST(Comparison, WindowsByTheErrorOfTheirMean) {
  const std::vector<SweepCell> cells = {
      Perplexity("a", "f32", std::exp(2), FourTimes({20, 20, 20, 20, 20})),
      Perplexity("a", "attn_logits=int4/row", std::exp(2.3), FourTimes({21, 22, 23, 24, 25}))};
  const Comparisons all = CompareCells(cells);
  ASSERT_EQ(all.changes.size(), 2u);
  const Comparison &perplexity = all.changes[0], &nll = all.changes[1];
  const MeanError error = ErrorOfMean(FourTimes({0.1, 0.2, 0.3, 0.4, 0.5}), Units::kOfText).value();
  EXPECT_EQ(*perplexity.p_holm, *perplexity.p);
  EXPECT_TRUE(perplexity.primary);
  EXPECT_NEAR(*nll.error, error.error, 1e-12);
  EXPECT_FALSE(nll.p_holm.has_value() || nll.primary);
  EXPECT_NEAR(*perplexity.error, error.error * std::exp(2.3), 1e-12);
  EXPECT_NEAR(*nll.p, error.P(nll.value), 1e-9);
  EXPECT_NEAR(nll.interval->low, error.Around(nll.value).low, 1e-9);
  EXPECT_EQ(*nll.for_half, 80);
  EXPECT_FALSE(nll.few_units);
}

TEST(Comparison, FewWindowsHaveNoErrorAndNoTest) {
  const Comparison change = CompareCells({Perplexity("a", "f32", 7, {20, 20, 20, 20, 20}),
                                          Perplexity("a", "attn_logits=int4/row", 8, {21, 22, 23, 24, 25})})
                                .changes[0];
  EXPECT_FALSE(change.error || change.interval || change.p || change.p_holm);
  EXPECT_TRUE(change.few_units);
}

SweepCell Divergence(const char* model, const std::string& plan, double kld) {
  nlohmann::ordered_json result{{"tokens", 200}, {"window_tokens", std::vector(20, 10)}};
  std::vector<double> klds, tops;
  for (int i = 0; i < 20; ++i) klds.push_back(kld * (5 + i % 7)), tops.push_back(kld == 0 ? 10 : 9 - i % 3);
  double mean = 0, top = 0;
  for (int i = 0; i < 20; ++i) mean += klds[static_cast<size_t>(i)], top += tops[static_cast<size_t>(i)];
  result.update({{"kld", mean / 200},
                 {"same_top", top / 200},
                 {"perplexity_ratio", 1.0},
                 {"window_klds", klds},
                 {"window_same_tops", tops},
                 {"window_log_ratios", std::vector(20, 0.0)}});
  return Cell(model, "divergence:t", plan, result, kDivergenceTask);
}

// A divergence from 0 cannot be chance, one from another can.
TEST(Comparison, ADivergenceIsTestedAgainstAnotherOnly) {
  const Comparisons all = CompareCells({Divergence("a", "f32", 0), Divergence("a", "attn_logits=int4/row", 0.01),
                                        Divergence("b", "f32", 0), Divergence("b", "attn_logits=int4/row", 0.02)});
  const Comparison &kld = all.changes[0], &same_top = all.changes[1];
  EXPECT_GT(kld.interval->low, 0);
  EXPECT_FALSE(kld.p || kld.p_holm || same_top.p);
  EXPECT_TRUE(all.drops[0].p_holm.has_value());
  EXPECT_FALSE(all.drops[1].p_holm.has_value());
}

// Each item's difference of differences, not each model's spread: b loses where a loses, and three more.
TEST(Comparison, DropsArePairedOverSharedItems) {
  const std::string b_after = Times(36, "1") + Times(9, "0") + Times(12, "0") + Times(3, "1");
  const std::vector<SweepCell> cells = {
      Choice("f32", kBefore, kBefore, "a"), Choice("attn_logits=int4/row", kAfter, kAfter, "a"),
      Choice("f32", kBefore, kBefore, "b"), Choice("attn_logits=int4/row", b_after, kAfter, "b")};
  const Comparisons all = CompareCells(cells);
  ASSERT_EQ(all.drops.size(), 2u);
  const Comparison& acc = all.drops[0];
  EXPECT_EQ(acc.cell, 3u);
  EXPECT_EQ(acc.against, "a");
  EXPECT_NEAR(acc.value, -9.0 / 60, 1e-15);
  EXPECT_EQ(acc.items->gained, 0);
  EXPECT_EQ(acc.items->lost, 9);
  EXPECT_NEAR(*acc.error, std::sqrt((9 - 81.0 / 60) / 59 / 60), 1e-15);
  EXPECT_NEAR(*acc.p, 1.0 / 512, 1e-15);
  EXPECT_EQ(acc.interval->low, acc.items->BonettPrice().low);  // nine, fewer than kFewestOfDrops
  EXPECT_EQ(all.drops[1].value, 0);
  EXPECT_TRUE(all.drops[1].interval.has_value());  // of few Bonett and Price's
}

// Where ten items or more differ, a difference of drops has the error of their mean: p and interval agree.
TEST(Comparison, DropsOfManyItemsByTheErrorOfTheirMean) {
  const std::string b_after = Times(33, "1") + Times(12, "0") + Times(12, "0") + Times(3, "1");
  const Comparison acc =
      CompareCells({Choice("f32", kBefore, kBefore, "a"), Choice("attn_logits=int4/row", kAfter, kAfter, "a"),
                    Choice("f32", kBefore, kBefore, "b"), Choice("attn_logits=int4/row", b_after, kAfter, "b")})
          .drops.at(0);
  std::vector<double> differences(60, 0.0);
  for (size_t i = 33; i < 45; ++i) differences[i] = -1;
  const MeanError error = ErrorOfMean(differences, Units::kIndependent).value();
  EXPECT_NEAR(*acc.error, error.error, 1e-12);
  EXPECT_NEAR(acc.interval->low, error.Around(-0.2).low, 1e-9);
  EXPECT_NEAR(*acc.p, error.P(-0.2), 1e-9);
  EXPECT_EQ(acc.items->lost, 12);
}

// 120 items of 24 samples: what changed is five items of one sample and one of another.
TEST(Comparison, ItemsThatShareSamplesArePairedBySample) {
  const auto cell = [](const std::string& plan, int first, int second) {
    const std::string outcomes =
        Times(first, "1") + Times(5 - first, "0") + Times(second, "1") + Times(5 - second, "0") + Times(110, "1");
    nlohmann::ordered_json result = Choice(plan, outcomes, outcomes, "a").result;
    std::vector<double> right(24, 5.0), items(24, 5.0);
    right[0] = first, right[1] = second;
    result.update({{"sample_items", items}, {"sample_right", right}, {"sample_right_norm", right}});
    return Cell("a", "choice:c", plan, result, kChoiceTask);
  };
  const Comparison change = CompareCells({cell("f32", 5, 5), cell("attn_logits=int4/row", 0, 4)}).changes[0];
  EXPECT_FALSE(change.items.has_value());
  EXPECT_NEAR(change.value, -0.05, 1e-15);
  // Differences of samples -5, -1 and 22 times 0: mean -1/4, squares 26 - 24 / 16.
  EXPECT_NEAR(*change.error, std::sqrt(24.5 / 23 * 24) / 120, 1e-12);
  EXPECT_GT(*change.p, 0.05) << "six items lost and none gained would be 0.016";
}

TEST(Comparison, OtherItemsOrWindowsAreNotPaired) {
  const std::vector<SweepCell> items = {Choice("f32", "1111", "1111"), Choice("attn_logits=int4/row", "111", "111")};
  EXPECT_FALSE(CompareCells(items).changes[0].p.has_value());
  SweepCell other = Perplexity("a", "attn_logits=int4/row", 8, FourTimes({21, 22, 23, 24, 25}));
  for (Figure& figure : other.figures.list) figure.windows.counts[2] = 9;
  const Comparison change =
      CompareCells({Perplexity("a", "f32", 7, FourTimes({20, 20, 20, 20, 20})), other}).changes[0];
  EXPECT_EQ(change.value, 1);
  EXPECT_FALSE(change.error.has_value());
}

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
}  // namespace tare::comparison_test
