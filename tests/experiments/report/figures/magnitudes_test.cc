// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/report/figures/figures.h"
#include "quant/file/hdf5.h"
#include "tests/support/random_statistics.h"
#include "tests/support/report_material.h"

namespace tare::magnitudes_test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

TEST(LargestTest, FindsEachModelsLargest) {
  const std::vector<FigureData> figures =
      LargestMagnitudes(MaterialOf({OutliersOf("a", 20, 60), OutliersOf("b", 5, 90)}));
  ASSERT_EQ(figures.size(), 1u);
  EXPECT_EQ(figures[0].table.rows.size(), 2u * 2 * 2 * 2);  // sites, models, layers, largest and median
  EXPECT_THAT(figures[0].table.rows[0], ElementsAre("attn_logits", "a", 0, "largest", 10.0, 50));
  EXPECT_THAT(figures[0].findings, ElementsAre("The largest magnitude of an attention logit of a is 20, in layer 1; "
                                               "that of b is 5, in layer 1 (0.25 times as large).",
                                               "The largest magnitude of a hidden state of a is 60, in layer 1; that "
                                               "of b is 90, in layer 1 (1.50 times as large)."));
}

TEST(LargestTest, TheRestIsDrawnBesideAllPositions) {
  const Material material = MaterialOf({OutliersOf("a", 20, 60, 1), OutliersOf("b", 5, 90, 1), OutliersOf("c", 5, 70)});
  const FigureData figure = LargestMagnitudes(material).at(0);
  // Logits have the same figures from position 1 on: no line on top of the other.
  EXPECT_EQ(figure.table.rows.size(), 2u * 2 * 3 * 2 + 2 * 2);
  EXPECT_EQ(std::ranges::count(figure.table.rows, "largest from 1", [](const Json& row) { return row["figure"]; }), 4);
  EXPECT_THAT(figure.findings, testing::IsSupersetOf({"The largest magnitude of a hidden state of a is 60, in layer 1; "
                                                      "that of b is 90, in layer 1 (1.50 times as large); "
                                                      "that of c is 70, in layer 1 (1.17 times as large).",
                                                      "From position 1 on the largest magnitude of a hidden state of a "
                                                      "is 6, in layer 1; that of b is 9, in layer 1 (1.50 "
                                                      "times as large)."}));
  // Logits have the same figures from position 1 on, which are not repeated.
  EXPECT_THAT(figure.findings, Not(Contains(HasSubstr("on the largest magnitude of an attention logit"))));
}

// In both halves of a statistics file, and in JSON.
TEST(LargestTest, TheHeadOfTheLargestLogitAndTheChannelOfTheLargestStateAreNamed) {
  nlohmann::ordered_json json = OutliersOf("a", 20, 60);
  json["top"]["attn_logits"] = {{{"layer", 1}, {"head", 1}}, {{"layer", 1}, {"head", 0}}};
  json["top"]["layer_out"] = {{{"layer", 1}, {"channel", 7}}, {{"layer", 0}, {"channel", 2}}};
  EXPECT_THAT(LargestMagnitudes(MaterialOf({json})).at(0).findings,
              ElementsAre("The largest magnitude of an attention logit of a is 20, in head 1 of layer 1.",
                          "The largest magnitude of a hidden state of a is 60, in channel 7 of layer 1."));
  SiteStatistics s, rest;
  s.outliers.top.Offer(-9.0f, {.head = 3}), s.outliers.magnitudes.Add(-9.0f);
  rest.outliers.top.Offer(4.0f, {.head = 2}), rest.outliers.magnitudes.Add(4.0f);
  StatisticsSet set;
  set.skip_first = 1;
  set.sites.emplace(SiteKey{Site::kAttnLogits, 0, 3, 1}, s);
  set.rest.emplace(SiteKey{Site::kAttnLogits, 0, 2, 1}, rest);
  Material material;
  material.statistics.emplace_back("m", set);
  EXPECT_THAT(
      LargestMagnitudes(material).at(0).findings,
      ElementsAre("The largest magnitude of an attention logit of m is 9, in head 3 of layer 0.",
                  "From position 1 on the largest magnitude of an attention logit of m is 4, in head 2 of layer 0."));
}

// Its ratio is that of the layer, as `tare stats show` has it.
TEST(LargestTest, TheWorstInputIsNamedWithItsLayer) {
  StatisticsSet set;
  const auto add = [&](Site site, int layer, float largest, float others) {
    SiteStatistics s;
    s.outliers.top.Offer(largest, {}), s.outliers.magnitudes.Add(largest);
    for (int i = 0; i < 4; ++i) s.outliers.magnitudes.Add(others);
    set.sites.emplace(SiteKey{site, layer}, s);
  };
  add(Site::kDownProjIn, 0, 4, 1), add(Site::kDownProjIn, 1, -64, 0.5), add(Site::kOProjIn, 0, 100, 8);
  Material material;
  material.statistics.emplace_back("m", set);
  const FigureData figure = LargestMagnitudes(material).at(0);
  ASSERT_EQ(figure.table.rows.size(), 2u * 2);
  EXPECT_EQ(figure.table.rows[2]["site"], "down_proj.in");
  EXPECT_THAT(figure.findings, ElementsAre(MatchesRegex(
                                   "The largest magnitude of down_proj\\.in of m is 64, in channel 0 of layer 1, where "
                                   "max/median is 12[78].*\\.")));
}

// What differs between models is said in both directions, and that they are one sample.
TEST(LargestTest, TwoModelsAreComparedAtEverySite) {
  Material material;
  material.statistics.emplace_back("a", RandomStatistics());
  EXPECT_FALSE(LargestMagnitudes(material).at(0).caption.contains("sample of training"));
  material.statistics.emplace_back("b", RandomStatistics());
  const FigureData figure = LargestMagnitudes(material).at(0);
  EXPECT_THAT(figure.findings,
              testing::IsSupersetOf({HasSubstr("The largest magnitude of b is above that of a at 0 of "),
                                     HasSubstr("The kurtosis of b is above that of a at 0 of ")}));
  EXPECT_THAT(figure.caption, testing::EndsWith("in several pairs with the same data, size and steps."));
}

TEST(LargestTest, AStatisticsFileTakesPrecedenceOverJson) {
  Material material = MaterialOf({OutliersOf("m", 20, 60)});
  StatisticsSet set = RandomStatistics();
  material.statistics.emplace_back("m", set);
  const FigureData figure = LargestMagnitudes(material).at(0);
  ASSERT_EQ(figure.table.rows.size(), 2u * 2 + 1);  // hidden states of two layers, and of one the rest
  EXPECT_EQ(figure.table.rows[0]["magnitude"], set.sites.at({Site::kLayerOut, 0}).outliers.absmax());
}

TEST(LargestTest, NonfiniteValuesAreNamedAndNotTheLargest) {
  nlohmann::ordered_json json = OutliersOf("a", 20, 60);
  json["layers"][1]["attn_logits"]["absmax"] = nullptr;
  json["layers"][0]["layer_out"]["nonfinite"] = 7;
  const FigureData figure = LargestMagnitudes(MaterialOf({json})).at(0);
  EXPECT_THAT(figure.findings[0], HasSubstr("The largest magnitude of an attention logit of a is 10, in layer 0."));
  EXPECT_THAT(MissingOf(figure),
              ElementsAre("site layer_out, model a, layer 0: 7 values are infinite or NaN and are left out",
                          "site attn_logits, model a, layer 1, figure largest: |x| is not a number"));
}

TEST(HistogramsTest, SharesAreOfAllValuesAndCodesEndAtTheLargest) {
  Material material;
  material.statistics.emplace_back("m", RandomStatistics());
  const FigureData figure = Histograms(material).at(0);
  double shares = 0;
  float last = 0;
  for (const Json& row : figure.table.rows) {
    if (row["kind"] == "values") shares += row["share"].get<double>();
    if (row["kind"] == "int4") last = row["magnitude"];
  }
  EXPECT_NEAR(shares, 1.0, 1e-9);
  EXPECT_EQ(std::ranges::count_if(figure.table.rows, [](const Json& row) { return row["kind"] == "int6"; }), 31);
  const auto& sites = material.statistics[0].set.sites;
  EXPECT_EQ(last, std::max(sites.at({Site::kLayerOut, 0}).outliers.absmax(),
                           sites.at({Site::kLayerOut, 1}).outliers.absmax()));
}

TEST(HistogramsTest, FindsTheShareThatBecomesZero) {
  StatisticsSet set;
  SiteStatistics s;
  for (const float value : {7.0f, 0.4f, 0.4f, 2.0f}) {
    s.outliers.magnitudes.Add(value);
    s.outliers.top.Offer(value, {});
  }
  set.sites.emplace(SiteKey{Site::kAttnLogits, 0, 0, 1}, s);
  Material material;
  material.statistics.emplace_back("m", set);
  EXPECT_THAT(Histograms(material).at(0).findings,
              ElementsAre("With one scale for attn_logits of m, int4 rounds 50.0 % of the values to 0."));
}

// Two sequences of 3 tokens and 64 channels, all 0.5 but for what a test puts there.
class ChannelsTest : public testing::Test {
 protected:
  std::vector<FigureData> Figures(const std::vector<float>& values) {
    Hdf5Writer file(folder_ / "d.h5");
    file.SetAttribute("", "schema", "tare.dump/1");
    file.SetAttribute("", "model", "m");
    file.SetAttribute("", "weights_sha256", "77aa");
    file.SetAttribute("", "plan", "f32");
    file.WriteDataset("layer_out.0", DType::kF32, {2, 3, 64}, std::vector<float>(values.size(), 0.5f).data());
    file.WriteDataset("layer_out.1", DType::kF32, {2, 3, 64}, values.data());
    file.Commit();
    return Channels(ReadMaterial({folder_ / "d.h5"}));
  }
  std::vector<float> values_ = std::vector<float>(2 * 3 * 64, 0.5f);
  TemporaryFolder folder_;
};

TEST_F(ChannelsTest, NoOutlierIsLostInItsRange) {
  values_[(3 + 2) * 64 + 41] = -90.0f;  // sequence 1, token 2
  const std::vector<FigureData> figures = Figures(values_);
  ASSERT_EQ(figures.size(), 2u);
  EXPECT_FALSE(figures[0].on_page);
  EXPECT_TRUE(figures[1].on_page);
  ASSERT_EQ(figures[1].table.rows.size(), 3u * 32);
  EXPECT_THAT(figures[1].table.rows[2 * 32 + 20], ElementsAre("m", 2, 3, 40, 42, 90.0, 4));
  EXPECT_THAT(figures[1].findings,
              ElementsAre("The largest magnitude of layer_out.1 in m is 90, at token 2, channels 40 to 41."));
}

TEST_F(ChannelsTest, WhatIsNotFiniteIsNamed) {
  values_[64] = NAN;
  const std::vector<FigureData> figures = Figures(values_);
  EXPECT_THAT(MissingOf(figures[1]),
              ElementsAre("model m, tokens from 1, before 2, channels from 0, before 2: largest |x| is not a number"));
}

}  // namespace

}  // namespace tare::magnitudes_test
