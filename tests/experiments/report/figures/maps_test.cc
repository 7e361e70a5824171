// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/report/figures/figures.h"
#include "tests/support/random_statistics.h"
#include "tests/support/report_material.h"

namespace tare {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(MapsTest, EachMeasureIsAFigureAndSomeAreOnThePage) {
  Material material;
  StatisticsSet set = RandomStatistics();
  const SiteKey low{Site::kProbs, 0, 2, 1}, high{Site::kProbs, 1, 0, 1};
  set.sites.emplace(high, set.sites.at(low));
  set.sites.at(high).outliers.top.Offer(50.0f, {});
  set.sites.at(high).outliers.magnitudes.Add(50.0f);
  const double largest = set.sites.at(high).outliers.absmax();
  set.sites.emplace(SiteKey{Site::kAttnLogits, 0, 0, 1}, set.sites.at({Site::kLayerOut, 0}));
  material.statistics.emplace_back("m", set);
  const std::vector<FigureData> figures = Maps(material);
  const auto named = [&](const char* name) { return *std::ranges::find(figures, name, &FigureData::name); };
  const FigureData absmax = named("maps:probs.absmax");
  EXPECT_FALSE(absmax.on_page);
  ASSERT_EQ(absmax.table.rows.size(), 2u);  // layer_out has no heads
  EXPECT_THAT(absmax.table.rows[1], ElementsAre("m, map 1", 1, 0, largest, set.sites.at(high).outliers.count()));
  EXPECT_THAT(absmax.findings[0], HasSubstr("The largest probs.absmax is 50 in m, map 1, layer 1, head 0."));
  EXPECT_THAT(absmax.caption, HasSubstr("defined in docs/reference/statistics-file.md of Tare's sources"));
  const FigureData logits = named("maps:attn_logits.absmax");
  EXPECT_TRUE(logits.on_page);
  EXPECT_EQ(logits.title, "Magnitude of attention logits by layer and head");
  EXPECT_THAT(logits.findings[0], HasSubstr("The largest magnitude of attention logits is "));
  EXPECT_THAT(logits.caption, HasSubstr("over all positions: the largest |x|, scaled, before the softmax; no unit."));
  EXPECT_EQ(figures[0].name, "maps:attn_logits.absmax");
}

}  // namespace
}  // namespace tare
