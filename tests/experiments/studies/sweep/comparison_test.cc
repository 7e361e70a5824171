// SPDX-License-Identifier: Apache-2.0
#include "experiments/studies/sweep/comparison.h"

#include <gtest/gtest.h>

#include <cmath>

#include "experiments/significance/distributions.h"
#include "tests/support/sweep_cells.h"

namespace tare {
namespace {

// acc of 60 items: 3 gained, 12 lost.
const std::string kBefore = Times(45, "1") + Times(12, "1") + Times(3, "0");
const std::string kAfter = Times(45, "1") + Times(12, "0") + Times(3, "1");

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
  EXPECT_NEAR(*acc.p, 0.03515625, 1e-15);      // scipy: binomtest(3, 15)
  EXPECT_NEAR(*acc.p_holm, 0.0703125, 1e-15);  // of two
  EXPECT_FALSE(acc.Significant());
  EXPECT_FALSE(acc.TooFew());
  EXPECT_EQ(acc.interval->low, ChangesOf(kBefore, kAfter).BonettPrice().low);
  EXPECT_EQ(*all.changes[1].p, 1);
  EXPECT_TRUE(all.changes[1].TooFew());
  const std::vector<SweepFigure> figures = FiguresOf(cells, all);
  ASSERT_EQ(figures.size(), 4u);
  EXPECT_EQ(figures[3].change, &all.changes[1]);
  EXPECT_EQ(figures[3].cell, &cells[1]);
  EXPECT_EQ(figures[3].figure, &cells[1].figures.list[1]);
  EXPECT_EQ(figures[0].change, nullptr);
  EXPECT_EQ(figures[3].drop, nullptr);
}

// By d = 0.1 .. 0.5 per token, mean 0.3, error sqrt(0.005): t = 4.243 of four degrees. nll is of no table: Holm leaves
// it.
TEST(Comparison, WindowsByStudentsT) {
  const std::vector<SweepCell> cells = {Perplexity("a", "f32", std::exp(2), {20, 20, 20, 20, 20}),
                                        Perplexity("a", "attn_logits=int4/row", std::exp(2.3), {21, 22, 23, 24, 25})};
  const Comparisons all = CompareCells(cells);
  ASSERT_EQ(all.changes.size(), 2u);
  const Comparison &perplexity = all.changes[0], &nll = all.changes[1];
  EXPECT_EQ(*perplexity.p_holm, *perplexity.p);
  EXPECT_NEAR(*nll.error, std::sqrt(0.005), 1e-12);
  EXPECT_FALSE(nll.p_holm.has_value());
  EXPECT_NEAR(*perplexity.error, std::sqrt(0.005) * std::exp(2.3), 1e-12);
  EXPECT_NEAR(*perplexity.p, StudentTwoSided(perplexity.value / *perplexity.error, 4), 1e-12);
  EXPECT_LT(nll.interval->low, 0.3 - 0.05);
  EXPECT_GT(nll.interval->high, 0.3 + 0.05);
  EXPECT_EQ(*nll.for_half, 20);
}

// Each item's difference of differences, not each model's spread: b loses where a loses, and three more.
TEST(Comparison, DropsArePairedOverSharedItems) {
  const std::string b_after = Times(36, "1") + Times(9, "0") + Times(12, "0") + Times(3, "1");
  const std::vector<SweepCell> cells = {
      Choice("f32", kBefore, kBefore, "a"), Choice("attn_logits=int4/row", kAfter, kAfter, "a"),
      Choice("f32", kBefore, kBefore, "b"), Choice("attn_logits=int4/row", b_after, kAfter, "b")};
  const Comparisons all = CompareCells(cells, {.draws = 20000});
  ASSERT_EQ(all.drops.size(), 2u);
  const Comparison& acc = all.drops[0];
  EXPECT_EQ(acc.cell, 3u);
  EXPECT_EQ(acc.against, "a");
  EXPECT_NEAR(acc.value, -9.0 / 60, 1e-15);
  EXPECT_EQ(acc.items->gained, 0);
  EXPECT_EQ(acc.items->lost, 9);
  EXPECT_NEAR(*acc.error, std::sqrt((9 - 81.0 / 60) / 59 / 60), 1e-15);
  EXPECT_NEAR(*acc.p, 2.0 / 512, 1e-15);
  // BCa of 9 of 60 (scipy: -0.2667, -0.0667), draws being sixtieths.
  EXPECT_NEAR(acc.interval->low, -0.2667, 1.0 / 60 + 1e-4);
  EXPECT_NEAR(acc.interval->high, -0.0667, 1.0 / 60 + 1e-4);
  EXPECT_EQ(all.drops[1].value, 0);
  EXPECT_TRUE(all.drops[1].TooFew());
  EXPECT_TRUE(all.drops[1].interval.has_value());  // of few Bonett and Price's
}

// 60 items of 12 samples: what changed is five items of one sample and one of another.
TEST(Comparison, ItemsThatShareSamplesArePairedBySample) {
  const auto cell = [](const std::string& plan, int first, int second) {
    const std::string outcomes =
        Times(first, "1") + Times(5 - first, "0") + Times(second, "1") + Times(5 - second, "0") + Times(50, "1");
    nlohmann::ordered_json result = Choice(plan, outcomes, outcomes, "a").result;
    std::vector<double> right(12, 5.0), items(12, 5.0);
    right[0] = first, right[1] = second;
    result.update({{"sample_items", items}, {"sample_right", right}, {"sample_right_norm", right}});
    return Cell("a", "choice:c", plan, result, kChoiceTask);
  };
  const Comparison change = CompareCells({cell("f32", 5, 5), cell("attn_logits=int4/row", 0, 4)}).changes[0];
  EXPECT_FALSE(change.items.has_value());
  EXPECT_NEAR(change.value, -0.1, 1e-15);
  // Differences of samples -5, -1 and ten times 0: mean -0.5, squares 26 - 12 / 4.
  EXPECT_NEAR(*change.error, std::sqrt(23.0 / 11 * 12) / 60, 1e-12);
  EXPECT_GT(*change.p, 0.1) << "six items lost and none gained would be 0.03";
}

TEST(Comparison, OtherItemsOrWindowsAreNotPaired) {
  const std::vector<SweepCell> items = {Choice("f32", "1111", "1111"), Choice("attn_logits=int4/row", "111", "111")};
  EXPECT_FALSE(CompareCells(items).changes[0].p.has_value());
  SweepCell other = Perplexity("a", "attn_logits=int4/row", 8, {21, 22, 23, 24, 25});
  for (Figure& figure : other.figures.list) figure.windows.counts[2] = 9;
  const Comparison change = CompareCells({Perplexity("a", "f32", 7, {20, 20, 20, 20, 20}), other}).changes[0];
  EXPECT_EQ(change.value, 1);
  EXPECT_FALSE(change.error.has_value());
}

}  // namespace
}  // namespace tare
