// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/report/drawing/interpreter.h"
#include "experiments/report/figures/figures.h"
#include "quant/base/message.h"
#include "tests/support/call.h"
#include "tests/support/random_statistics.h"
#include "tests/support/report_material.h"

namespace tare::maps_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

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
  EXPECT_THAT(absmax.table.rows[1], ElementsAre("m", 1, 0, largest, set.sites.at(high).outliers.count()));
  EXPECT_THAT(absmax.findings[0], HasSubstr("The largest probs.absmax is 50 in m, head 0 of layer 1."));
  EXPECT_THAT(absmax.caption, HasSubstr("defined in docs/reference/statistics-file.md of Tare's sources"));
  const FigureData logits = named("maps:attn_logits.absmax");
  EXPECT_TRUE(logits.on_page);
  EXPECT_EQ(logits.title, "Magnitude of attention logits by layer and head");
  EXPECT_TRUE(logits.findings.empty()) << "the figure of largest magnitudes says it";
  EXPECT_THAT(logits.caption, HasSubstr("over all positions: the largest |x|, scaled, before the softmax; no unit."));
  EXPECT_EQ(figures[0].name, "maps:attn_logits.absmax");
  material.statistics[0].set.sites.emplace(SiteKey{Site::kProbs, 0, 1, 2}, set.sites.at(high));
  const std::vector<FigureData> of_two = Maps(material);
  const FigureData two = *std::ranges::find(of_two, "maps:probs.absmax", &FigureData::name);
  EXPECT_EQ(two.table.rows[0]["panel"], "m, map 2");
  EXPECT_EQ(two.table.rows[2]["panel"], "m, map 1");
}

TEST(MapErrorsTest, HasARowPerMapAndPerDifference) {
  const FigureData figure = ErrorsOfMaps(MaterialOf({MapsOf("m", 0.75, 0.2, 0.3)})).at(0);
  const char* const panel = "m, k=int4/token";
  ASSERT_EQ(figure.table.rows.size(), 5u);
  EXPECT_THAT(figure.table.rows[1],
              ElementsAre(panel, 0, "map 2", 0.25, 0.25, 0.125, 0.5, 0.75, -0.5, -0.25, nullptr, nullptr, nullptr, 40));
  EXPECT_THAT(figure.table.rows[2], ElementsAre(panel, 0, "difference", 0.0625, nullptr, nullptr, nullptr, nullptr,
                                                -0.125, 0.0, 0.25, 0.2, 0.3, 40));
  EXPECT_THAT(
      figure.findings,
      ElementsAre("In m under k=int4/token, the largest error of an attention map is 0.75 of the map's norm, in "
                  "map 2 of layer 1. The largest error of the difference of two maps is 0.0625 of its norm, in "
                  "layer 0; taking the difference cancels a share of +0.250 [+0.200, +0.300] of both maps' "
                  "errors there."));
}

TEST(MapErrorsTest, RunsOfOneModelAndPlanKeepApart) {
  const FigureData figure =
      ErrorsOfMaps(MaterialOf({MapsOf("m", 0.75, nullptr, nullptr), MapsOf("m", 0.5, 0.2, 0.3)})).at(0);
  EXPECT_EQ(figure.table.rows[0]["panel"], "m, k=int4/token");
  EXPECT_EQ(figure.table.rows[5]["panel"], "m, k=int4/token, run 2");
  ASSERT_EQ(figure.findings.size(), 2u);
  EXPECT_THAT(figure.findings[0], HasSubstr("cancels a share of +0.250 of both"));
  EXPECT_THAT(figure.findings[1],
              HasSubstr("In m under k=int4/token, run 2, the largest error of an attention map is 0.5 "));
}

TEST(MapErrorsTest, AModelWithOneMapHasNoDifference) {
  Json json = MapsOf("m", 0.75, nullptr, nullptr);
  for (Json& layer : json["plans"][0]["layers"]) layer["maps"].erase(1), layer["difference"] = nullptr;
  const FigureData figure = ErrorsOfMaps(MaterialOf({json})).at(0);
  EXPECT_EQ(figure.table.rows.size(), 2u);
  EXPECT_THAT(figure.findings,
              ElementsAre("In m under k=int4/token, the largest error of an attention map is 0.5 of the map's norm, in "
                          "map 1 of layer 0."));
}

TEST(MapErrorsTest, TextInPlaceOfANumberIsRefused) {
  for (const char* key : {"error", "logit_rms", "peak"}) {
    Json json = MapsOf("m", 0.75, nullptr, nullptr);
    json["plans"][0]["layers"][1]["maps"][0][key] = "<b>1</b>";
    EXPECT_THROW(ErrorsOfMaps(MaterialOf({json})), Error) << key;
  }
}

TEST(AttentionOfHeads, APanelForEachPicture) {
  const std::vector<FigureData> figures = AttentionOfHeads(MaterialOf({HeadsOf("m", 0.25), HeadsOf("n", 0.25)}));
  ASSERT_EQ(figures.size(), 2u);
  EXPECT_EQ(figures[1].name, "attention:2");
  const FigureData& figure = figures[0];
  EXPECT_EQ(figure.name, "attention");
  EXPECT_EQ(figure.title, "Attention of head 1 of layer 2 of m");
  EXPECT_THAT(figure.caption, AllOf(HasSubstr("the 4 tokens of the first window."), HasSubstr("of 2 tokens by as many"),
                                    HasSubstr("what k=int4/token adds"), HasSubstr("lambda is the mean")));
  ASSERT_EQ(figure.table.rows.size(), 4u);
  std::vector<std::string> panels;
  for (const Json& row : figure.table.rows) panels.push_back(row["panel"]);
  EXPECT_THAT(panels, ElementsAre("map 1", "map 2", "difference, lambda = 0.5", "error, k=int4/token"));
  EXPECT_EQ(figure.table.rows[1]["domain"], Json({0.0, 1.0}));
  EXPECT_EQ(figure.table.rows[2]["domain"], Json({-0.5, 0.5}));
  EXPECT_EQ(figure.table.rows[3]["domain"], Json({-0.25, 0.25}));
  EXPECT_EQ(figure.table.rows[3]["low"], -0.25);
  Json above = HeadsOf("m", 0.25);
  above["plans"][0]["heads"][0]["maps"][0] = {{0.5, nullptr}, {0.25, 0.75}};
  EXPECT_EQ(AttentionOfHeads(MaterialOf({above})).at(0).table.rows[0]["low"], 0.25);
  const std::string svg = Drawing().Svg("attention", SpecificationOf(figure));
  for (const char* part :
       {"lambda = 0.5", "head 1 of layer 2 of m", "query (token)", "data:image/png;base64,", "pixelated"})
    EXPECT_THAT(svg, HasSubstr(part));
}

TEST(AttentionOfHeads, OfOneMap) {
  Json of_one = HeadsOf("m", 0);
  Json& head = of_one["plans"][0]["heads"][0];
  head["lambda"] = head["difference"] = nullptr;
  head["maps"].erase(1);
  const FigureData figure = AttentionOfHeads(MaterialOf({of_one})).at(0);
  ASSERT_EQ(figure.table.rows.size(), 2u);
  EXPECT_THAT(figure.caption, testing::EndsWith("exact inputs to the layer."));
  EXPECT_THAT(
      figure.findings,
      ElementsAre("In head 1 of layer 2 of m, k=int4/token changes an entry of the map by at most 0.0625, where "
                  "the largest is 1."));
}

TEST(AttentionOfHeads, RefusesMoreCellsThanAPictureHas) {
  Json large = HeadsOf("m", 0.25);
  large["plans"][0]["heads"][0]["maps"][0] = std::vector(129, std::vector<double>{0.5});
  EXPECT_THAT(Call([&] { AttentionOfHeads(MaterialOf({large})); }),
              testing::ThrowsMessage<Error>(HasSubstr("got 129 cells a side, expected at most 128")));
}

}  // namespace

}  // namespace tare::maps_test
