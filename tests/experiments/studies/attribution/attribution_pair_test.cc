// SPDX-License-Identifier: Apache-2.0
#include "experiments/studies/attribution/attribution_pair.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/error.h"
#include "tests/support/sweep_cells.h"

namespace tare {
namespace {

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
  m.attributions = Attribute(m.cells, plan, cut, {});
  return m;
}

const Plan kBoth = Plan::Parse("q=int4/token,k=int4/token");

// q costs the first model items 0 to 5, the second 0, 1 and 6 to 8: four fewer and three more.
TEST(AttributionPair, DifferencesArePairedByItem) {
  const AttributedModel a = ModelOf("a", kBoth, Lost(0, 8), {{"q", Lost(0, 6)}, {"k", Lost(6, 8)}});
  const AttributedModel b = ModelOf("b", kBoth, Lost(0, 20), {{"q", Lost(0, 2, 6, 9)}, {"k", Lost(0, 20)}});
  const std::vector<AttributionPair> pairs = PairAttributions(a, b, kBoth, {});
  ASSERT_EQ(pairs.size(), 1u);  // a task's first figure
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
  const std::vector<AttributionPair> pairs = PairAttributions(a, b, plan, {});
  ASSERT_EQ(pairs.at(0).parts.size(), 3u);
  EXPECT_EQ(pairs[0].parts[1].part, "v");
  EXPECT_FALSE(pairs[0].parts[1].first || pairs[0].parts[1].difference);
  EXPECT_EQ(pairs[0].parts[2].part, "k");
  EXPECT_FALSE(pairs[0].parts[2].second || pairs[0].parts[2].difference);
}

TEST(AttributionPair, ACellThatIsMissing) {
  const AttributedModel a = ModelOf("a", kBoth, Lost(0, 8), {{"q", Lost(0, 6)}, {"k", Lost(6, 8)}});
  AttributedModel b = a;
  b.cells.erase(b.cells.begin() + 2);
  EXPECT_THAT([&] { PairAttributions(a, b, kBoth, {}); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("choice:c under q=int4/token: got no finished cell")));
}

}  // namespace
}  // namespace tare
