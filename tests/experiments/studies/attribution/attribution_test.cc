// SPDX-License-Identifier: Apache-2.0
#include "experiments/studies/attribution/attribution.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "experiments/significance/mean_error.h"
#include "quant/base/message.h"
#include "tests/support/call.h"
#include "tests/support/sweep_cells.h"

namespace tare::attribution_test {
namespace {

const Plan kPlan = Plan::Parse("q=int4/token,k=int4/token");

std::vector<PlanPart> Parts() {
  ModelSites model{.family = "toy", .layers = 1, .maps = 1, .tied_head = false, .heads = {}, .weights = {}};
  model.heads[Site::kQ] = model.heads[Site::kK] = {std::nullopt};
  return PartsOf(kPlan, {.site = true}, model);
}

// Losses of four times five windows of ten tokens, the same spread in all runs: then errors of differences are of what
// differs.
std::vector<SweepCell> Cells(const std::vector<double>& q, const std::vector<double>& k,
                             const std::vector<double>& both) {
  const auto cell = [](const char* plan, std::vector<double> more) {
    const double hard[] = {20, 27, 24, 21, 28};
    double mean = 0;
    std::vector<double> losses;
    for (size_t i = 0; i < 20; ++i) mean += losses.emplace_back(more[i % 5] + hard[i % 5]) / 200;
    return Perplexity("m", plan, std::exp(mean), losses);
  };
  return {cell("f32", {0, 0, 0, 0, 0}),
          cell("q=int4/token,k=int4/token", both),
          cell("q=int4/token", q),
          cell("k=int4/token", k),
          cell("q=int4/token,k=int4/token,q=f32", k),
          cell("q=int4/token,k=int4/token,k=f32", q)};
}

TEST(Attribution, PlansOfTheRuns) {
  EXPECT_THAT(AttributionPlans(kPlan, Parts(), PartCosts::kAloneAndTakenOut),
              testing::ElementsAre("f32", "q=int4/token,k=int4/token", "q=int4/token", "k=int4/token",
                                   "q=int4/token,k=int4/token,q=f32", "q=int4/token,k=int4/token,k=f32"));
  EXPECT_THAT(AttributionPlans(kPlan, Parts(), PartCosts::kAlone),
              testing::ElementsAre("f32", "q=int4/token,k=int4/token", "q=int4/token", "k=int4/token"));
}

// Perplexity and nll are of the same losses: k costs most, and both together 0.05 nats more than their sum.
TEST(Attribution, WhatIsLeftOverHasItsOwnPairedError) {
  const std::vector<Attribution> all = Attribute(Cells({1, 1, 1, 1, 1}, {2, 3, 4, 5, 6}, {3, 4.5, 5.5, 6.5, 8}), kPlan,
                                                 Parts(), PartCosts::kAloneAndTakenOut);
  ASSERT_EQ(all.size(), 2u);
  const Attribution& perplexity = all[0];
  ASSERT_EQ(perplexity.parts.size(), 2u);
  EXPECT_EQ(perplexity.parts[0].part.name, "k");
  const double f32 = std::exp(2.4), q = std::exp(2.5), k = std::exp(2.8), both = std::exp(2.95);
  EXPECT_NEAR(perplexity.change.value, both - f32, 1e-12);
  EXPECT_NEAR(perplexity.parts[0].alone.value, k - f32, 1e-12);
  EXPECT_NEAR(perplexity.parts[0].taken_out->value, both - q, 1e-12);
  EXPECT_NEAR(perplexity.parts[1].taken_out->value, both - k, 1e-12);
  EXPECT_NEAR(perplexity.sum.value, k + q - 2 * f32, 1e-12);
  EXPECT_NEAR(perplexity.left_over.value, both - f32 - (k + q - 2 * f32), 1e-12);
  // g_i of what is left over, by the runs' own derivatives.
  const double mean[] = {2.95, 2.4, 2.5, 2.8}, slope[] = {both, f32, -q, -k}, hard[] = {20, 27, 24, 21, 28};
  const double more[4][5] = {{3, 4.5, 5.5, 6.5, 8}, {0, 0, 0, 0, 0}, {1, 1, 1, 1, 1}, {2, 3, 4, 5, 6}};
  std::vector<double> g;
  for (int i = 0; i < 20; ++i) {
    g.push_back(0);
    for (int r = 0; r < 4; ++r) g.back() += slope[r] * (hard[i % 5] + more[r][i % 5] - mean[r] * 10) / 10;
  }
  EXPECT_NEAR(*perplexity.left_over.error, ErrorOfMean(g, Units::kOfText)->error, 1e-12);
  EXPECT_TRUE(perplexity.left_over.p_holm.has_value());
  EXPECT_GE(*perplexity.left_over.p_holm, *perplexity.left_over.p);
}

// By items: q gains none and loses six of 40, k loses four others, both lose all ten and two more.
TEST(Attribution, OfItems) {
  const auto right = [](int lost_from, int lost_to) {
    std::string text(40, '1');
    for (int i = lost_from; i < lost_to; ++i) text[static_cast<size_t>(i)] = '0';
    return text;
  };
  std::vector<SweepCell> cells;
  const auto add = [&](const char* plan, const std::string& outcomes) {
    cells.push_back(Choice(plan, outcomes, outcomes));
  };
  add("f32", right(0, 0));
  add("q=int4/token,k=int4/token", right(0, 12));
  add("q=int4/token", right(0, 6));
  add("k=int4/token", right(6, 10));
  add("q=int4/token,k=int4/token,q=f32", right(6, 10));
  add("q=int4/token,k=int4/token,k=f32", right(0, 6));
  const std::vector<Attribution> all = Attribute(cells, kPlan, Parts(), PartCosts::kAloneAndTakenOut);
  EXPECT_EQ(all[0].parts[0].part.name, "q");
  EXPECT_NEAR(all[0].parts[0].alone.value, -0.15, 1e-12);
  EXPECT_NEAR(all[0].parts[0].taken_out->value, -0.2, 1e-12);
  EXPECT_NEAR(all[0].left_over.value, -0.05, 1e-12);
  EXPECT_EQ(all[0].left_over.items->lost, 2);
  EXPECT_EQ(all[0].left_over.items->gained, 0);
  EXPECT_EQ(all[0].sum.items->lost, 10);
}

// Without the runs for what is taken out, nothing else changes but the number of comparisons.
TEST(Attribution, OfPartsAlone) {
  std::vector<SweepCell> cells = Cells({1, 1, 1, 1, 1}, {2, 3, 4, 5, 6}, {3, 4.5, 5.5, 6.5, 8});
  const Attribution all = Attribute(cells, kPlan, Parts(), PartCosts::kAloneAndTakenOut).at(0);
  cells.resize(4);
  const Attribution alone = Attribute(cells, kPlan, Parts(), PartCosts::kAlone).at(0);
  ASSERT_EQ(alone.parts.size(), 2u);
  EXPECT_EQ(alone.parts[0].part.name, "k");
  EXPECT_EQ(alone.parts[0].alone.value, all.parts[0].alone.value);
  EXPECT_EQ(alone.parts[0].alone.p, all.parts[0].alone.p);
  EXPECT_FALSE(alone.parts[0].taken_out);
  EXPECT_EQ(alone.left_over.value, all.left_over.value);
  EXPECT_EQ(alone.left_over.error, all.left_over.error);
}

TEST(Attribution, AMissingCellIsNamed) {
  std::vector<SweepCell> cells = Cells({1, 1, 1, 1, 1}, {2, 3, 4, 5, 6}, {3, 4, 5, 6, 8});
  cells.pop_back();
  EXPECT_THAT(Call([&] { Attribute(cells, kPlan, Parts(), PartCosts::kAloneAndTakenOut); }),
              testing::ThrowsMessage<Error>(testing::HasSubstr(
                  "perplexity:t under q=int4/token,k=int4/token,k=f32: got no finished run, expected one")));
}

// 40 items, of which those in [from, to) are lost.
std::string Lost(size_t from, size_t to, size_t also_from = 0, size_t also_to = 0) {
  std::string text(40, '1');
  std::fill(text.begin() + static_cast<long>(from), text.begin() + static_cast<long>(to), '0');
  std::fill(text.begin() + static_cast<long>(also_from), text.begin() + static_cast<long>(also_to), '0');
  return text;
}

// A model that has these parts of the plan, each alone with these outcomes.
AttributedModel ModelOf(const char* model, const Plan& plan, const std::string& whole,
                        const std::vector<std::pair<std::string, std::string>>& parts) {
  AttributedModel m{.cells = {}, .attributions = {}};
  std::vector<PlanPart> cut;
  const auto add = [&](const std::string& under, const std::string& outcomes) {
    m.cells.push_back(Choice(under, outcomes, outcomes, model));
  };
  add("f32", Lost(0, 0));
  add(plan.canonical(), whole);
  for (const auto& [site, outcomes] : parts) {
    cut.push_back({site, Plan::Parse(site + "=int4/token"), Plan::Parse(plan.canonical() + "," + site + "=f32")});
    add(cut.back().alone.canonical(), outcomes);
    add(cut.back().without.canonical(), whole);
  }
  m.attributions = Attribute(m.cells, plan, cut, PartCosts::kAloneAndTakenOut);
  return m;
}

const Plan kBoth = Plan::Parse("q=int4/token,k=int4/token");

// q costs the first model items 0 to 5, the second 0, 1 and 6 to 8: four fewer and three more.
TEST(AttributionPair, DifferencesArePairedByItem) {
  const AttributedModel a = ModelOf("a", kBoth, Lost(0, 8), {{"q", Lost(0, 6)}, {"k", Lost(6, 8)}});
  const AttributedModel b = ModelOf("b", kBoth, Lost(0, 20), {{"q", Lost(0, 2, 6, 9)}, {"k", Lost(0, 20)}});
  const std::vector<AttributionPair> pairs = PairAttributions(a, b, kBoth);
  ASSERT_EQ(pairs.size(), 1u);  // a task's primary figure
  EXPECT_EQ(pairs[0].task, "choice:c");
  EXPECT_STREQ(pairs[0].figure.name, "acc");
  ASSERT_EQ(pairs[0].parts.size(), 2u);
  const PartPair &k = pairs[0].parts[0], &q = pairs[0].parts[1];  // k costs most: the second model half
  EXPECT_EQ(k.part, "k");
  EXPECT_NEAR(*k.first, -0.05, 1e-12);
  EXPECT_NEAR(*k.second, -0.5, 1e-12);
  EXPECT_EQ(q.part, "q");
  EXPECT_NEAR(q.difference->value, (6 - 5) / 40.0, 1e-12);
  EXPECT_EQ(q.difference->items->gained, 4);
  EXPECT_EQ(q.difference->items->lost, 3);
  EXPECT_NEAR(pairs[0].whole.difference->value, (8 - 20) / 40.0, 1e-12);
  // Holm over two parts and the whole: k loses 18 that the first keeps, and keeps none that it loses.
  EXPECT_EQ(k.difference->items->lost, 18);
  EXPECT_NEAR(*k.difference->p_holm, 3 * *k.difference->p, 1e-12);
}

TEST(AttributionPair, APartThatOneModelLacks) {
  const Plan plan = Plan::Parse("q=int4/token,k=int4/token,v=int4/token");
  const AttributedModel a = ModelOf("a", plan, Lost(0, 9), {{"q", Lost(0, 6)}, {"k", Lost(6, 8)}});
  const AttributedModel b = ModelOf("b", plan, Lost(0, 9), {{"q", Lost(0, 6)}, {"v", Lost(6, 9)}});
  const std::vector<AttributionPair> pairs = PairAttributions(a, b, plan);
  ASSERT_EQ(pairs.at(0).parts.size(), 3u);
  EXPECT_EQ(pairs[0].parts[1].part, "v");
  EXPECT_FALSE(pairs[0].parts[1].first || pairs[0].parts[1].difference);
  EXPECT_EQ(pairs[0].parts[2].part, "k");
  EXPECT_FALSE(pairs[0].parts[2].second || pairs[0].parts[2].difference);
}

TEST(AttributionPair, AMissingCellIsNamed) {
  const AttributedModel a = ModelOf("a", kBoth, Lost(0, 8), {{"q", Lost(0, 6)}, {"k", Lost(6, 8)}});
  AttributedModel b = a;
  b.cells.erase(b.cells.begin() + 2);
  EXPECT_THAT(Call([&] { PairAttributions(a, b, kBoth); }),
              testing::ThrowsMessage<Error>(testing::HasSubstr("choice:c under q=int4/token: got no finished run")));
}

}  // namespace

}  // namespace tare::attribution_test
