// SPDX-License-Identifier: Apache-2.0
#include "experiments/studies/sweep/comparison.h"

#include <gtest/gtest.h>

#include <cmath>

#include "experiments/tasks/divergence.h"
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
  EXPECT_NEAR(*acc.p, 697.0 / 32768, 1e-15);  // p_values_test.cc
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

}  // namespace
}  // namespace tare::comparison_test
