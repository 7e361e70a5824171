// SPDX-License-Identifier: Apache-2.0
// Output for programs and people, from a few values set by hand.
#include "experiments/observe/statistics_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <sstream>

#include "quant/base/message.h"
#include "tests/support/sums.h"

namespace tare::statistics_report_test {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::StartsWith;

SiteStatistics Of(const SiteKey& key, const std::vector<float>& values) {
  SiteStatistics s(SumNames(key.site).size());
  Fold& fold = s.folds[0];
  fold.sequences = fold.rows = 1;
  fold.values = values.size();
  for (size_t i = 0; i < values.size(); ++i) {
    const double v = values[i];
    s.outliers.magnitudes.Add(values[i]);
    s.outliers.top.Offer(values[i], {0, key.layer.value_or(-1), key.head.value_or(-1), 0, static_cast<int64_t>(i)});
    double power = 1;
    for (const BaseSum sum : {kSumX, kSumX2, kSumX3, kSumX4}) fold.sums.Add(sum, power *= v);
  }
  return s;
}

StatisticsSet Example() {
  StatisticsSet set{.job = {{"model", "m"}}};
  for (const auto& [key, values] : std::map<SiteKey, std::vector<float>>{{{Site::kEmbed}, {}},
                                                                         {{Site::kLayerOut, 0}, {1, -1, 3, -3}},
                                                                         {{Site::kAttnLogits, 0, 0, 1}, {2, 4}},
                                                                         {{Site::kAttnLogits, 0, 1, 2}, {-8}},
                                                                         {{Site::kAttnLogits, 1, 0, 1}, {16}}}) {
    set.sites.emplace(key, Of(key, values));
  }
  return set;
}

TEST(StatisticsReport, RowsAreASitesLayersHeadsAndMaps) {
  const Json json = SiteJson(Example(), Site::kAttnLogits);
  EXPECT_EQ(json["schema"], "tare.stats.site/2");
  ASSERT_EQ(json["rows"].size(), 3u);
  EXPECT_EQ(json["rows"][1]["head"], 1);
  EXPECT_EQ(json["rows"][1]["map"], 2);
  EXPECT_EQ(json["rows"][0]["count"], 2u);
  EXPECT_EQ(json["rows"][0]["absmax"], 4.0f);
  EXPECT_EQ(json["rows"][0]["mean"], 3.0);
  EXPECT_EQ(json["rows"][0]["variance"], 1.0);
  EXPECT_TRUE(json["rows"][2]["kurtosis"].is_null());  // one value has no spread
}

TEST(StatisticsReport, UndefinedFiguresAreNull) {
  const Json hidden = SiteJson(Example(), Site::kLayerOut)["rows"][0];
  EXPECT_TRUE(hidden["head"].is_null());
  EXPECT_TRUE(hidden["map"].is_null());
  EXPECT_DOUBLE_EQ(hidden["kurtosis"].get<double>(), 41.0 / 25.0);
  const Json embed = SiteJson(Example(), Site::kEmbed)["rows"][0];
  for (const char* name : {"layer", "absmax", "mean", "median", "p9999"}) EXPECT_TRUE(embed[name].is_null()) << name;
  EXPECT_EQ(embed["count"], 0u);
}

TEST(StatisticsReport, CsvAndTablesHaveTheRows) {
  const Json json = SiteJson(Example(), Site::kAttnLogits);
  EXPECT_THAT(RowsCsv(std::span(&json, 1)),
              StartsWith("site,layer,head,map,from,count,absmax,mean,variance,kurtosis,median,p99,p999,"
                         "p9999\nattn_logits,0,0,1,0,2,4,3,"));
  EXPECT_THAT(RowsTable(json), HasSubstr("kurtosis"));
  EXPECT_THAT(RowsTable(MeasuresJson(Example(), Site::kLayerOut)), HasSubstr("kurtosis_sequence"));
  EXPECT_THAT(OverviewTable(Example()), ContainsRegex("\nattn_logits +16 +1 +0 +- +16 +1 "));
  EXPECT_THAT(OverviewTable(Example()), ContainsRegex("\nembed +- +- +- +- "));
}

// Each table says which positions its rows are of.
TEST(StatisticsReport, TheRestStandsBesideAllPositions) {
  StatisticsSet set = Example();
  set.skip_first = 1;
  set.rest.emplace(SiteKey{Site::kLayerOut, 0}, Of({Site::kLayerOut, 0}, {1, -1}));
  set.rest.emplace(SiteKey{Site::kEmbed}, Of({Site::kEmbed}, {}));
  const Json rows = SiteJson(set, Site::kLayerOut)["rows"];
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["from"], 0);
  EXPECT_EQ(rows[0]["absmax"], 3.0);
  EXPECT_EQ(rows[1]["from"], 1);
  EXPECT_EQ(rows[1]["absmax"], 1.0);
  EXPECT_EQ(MeasuresJson(set, Site::kLayerOut)["rows"][1]["measures"]["kurtosis"], 1.0);
  EXPECT_TRUE(MeasuresJson(set, Site::kEmbed)["rows"][1]["measures"]["absmax"].is_null());
  EXPECT_THAT(RowsTable(SiteJson(set, Site::kLayerOut)),
              testing::AllOf(HasSubstr("all positions\n"), HasSubstr("without position 0\n")));
  EXPECT_THAT(OverviewTable(set), ContainsRegex("\nlayer_out +3 +0 +- +2 .*\n  from 1 +1 +0 +- +0 "));
  EXPECT_EQ(PositionsText("layer_out", 4), "without positions 0 to 3");
  EXPECT_EQ(PositionsText("up_proj.w", 0), "all rows");
}

// The median of both layers is 4: the ratio is the page's, that of the layer with the largest value.
TEST(StatisticsReport, TheLargestHasItsPlaceAndTheMedianOfItsLayer) {
  StatisticsSet set;
  set.sites.emplace(SiteKey{Site::kV, 0, 3}, Of({Site::kV, 0, 3}, {1, 1, 1, -8}));
  set.sites.emplace(SiteKey{Site::kV, 1, 2}, Of({Site::kV, 1, 2}, {4, 4, 4, 4}));
  EXPECT_THAT(OverviewTable(set),
              StartsWith("site  absmax  layer  head  channel  median  max/median  p999  kurtosis\n"));
  EXPECT_THAT(OverviewTable(set), ContainsRegex("\nv +8 +0 +3 +3 +1.004 +7.969 "));
}

TEST(StatisticsReport, ValuesThatAreNotFiniteAreToldBelowTheirSite) {
  StatisticsSet set = Example();
  EXPECT_FALSE(OverviewTable(set).contains("nonfinite"));
  set.sites.at({Site::kLayerOut, 0}).outliers.nonfinite = 7;
  EXPECT_THAT(OverviewTable(set), ContainsRegex("\nlayer_out [^\n]*\n  nonfinite: 7\n"));
}

// By the figures, in either direction; inputs of one tensor once, and only of sites that both have.
TEST(StatisticsReport, BothSidesOfTwoSetsAreSaid) {
  const auto set_of = [](const std::map<SiteKey, std::vector<float>>& sites) {
    StatisticsSet set;
    for (const auto& [key, values] : sites) set.sites.emplace(key, Of(key, values));
    return set;
  };
  const SiteKey q{Site::kQ, 0, 0}, in{Site::kQProjIn, 0}, v{Site::kV, 0, 0}, out{Site::kHeadOut, 0, 0};
  const StatisticsSet x = set_of({{q, {4, 8}}, {in, {4, 8}}, {v, {1, 2}}, {out, {3, 3}}});
  StatisticsSet y = set_of({{q, {1, 2}}, {in, {1, 2}}, {v, {2, 6}}, {out, {3, 3}}, {{Site::kK, 0, 0}, {9}}});
  EXPECT_THAT(
      SideSentences(x, "x", y, "y"),
      testing::ElementsAre("The largest magnitude of y is above that of x at 1 of 4 sites, most at v (3 times); "
                           "it is below at 2 of 4 sites, most at q_proj.in (0.25 times).",
                           "The kurtosis of y is above that of x at 0 of 3 sites; it is below at 0 of 3 sites."));
  EXPECT_THAT(SideSentences(y, "y", x, "x")[0],
              HasSubstr("above that of y at 2 of 4 sites, most at q_proj.in (4 times)"));
}

// Every site, and what the one has and the other has not is left empty.
TEST(StatisticsReport, AllSitesInOneCsv) {
  StatisticsSet set = Example();
  const std::string figures = RowsCsv(AllSitesJson(set, SiteJson));
  EXPECT_EQ(std::ranges::count(figures, '\n'), 1 + 5);
  EXPECT_THAT(figures, HasSubstr("\nembed,,,,0,0,,"));
  EXPECT_THAT(figures, HasSubstr("\nattn_logits,0,1,2,0,1,8,"));
  set.sites.emplace(SiteKey{Site::kProbs, 0, 0, 1}, Of({Site::kProbs}, {0.5f}));
  const std::string measures = RowsCsv(AllSitesJson(set, MeasuresJson));
  EXPECT_THAT(measures, HasSubstr(",nonfinite,"));  // of probs there is more after it
  EXPECT_THAT(measures, HasSubstr(",sink_rate"));
  const std::string header = measures.substr(0, measures.find('\n'));
  std::istringstream lines(measures);
  for (std::string line; std::getline(lines, line);)
    EXPECT_EQ(std::ranges::count(line, ','), std::ranges::count(header, ',')) << line;
}

TEST(StatisticsReport, OfOneLayer) {
  StatisticsSet set = Example();
  set.rest = set.sites;
  set.skip_first = 1;
  KeepLayer(set, 1);
  EXPECT_EQ(AllSitesJson(set, SiteJson).size(), 1u);
  EXPECT_EQ(SiteJson(set, Site::kAttnLogits)["rows"].size(), 2u);  // of all positions, and of the rest
  EXPECT_EQ(std::ranges::count(OverviewTable(set), '\n'), 3);
  EXPECT_THROW(SiteJson(set, Site::kLayerOut), Error);
  EXPECT_THROW(KeepLayer(set, 9), Error);
}

TEST(StatisticsReport, SignalToNoiseOfEverySite) {
  StatisticsSet set{.job = {{"model", "m"}}, .formats = {"int8/row"}};
  for (const int layer : {0, 1}) {
    SiteStatistics s(set.Sums(Site::kQ).size());
    s.folds[0].sums.Add(kSumX2, 1000);
    s.folds[0].sums.Add(FindSum(set, Site::kQ, "int8/row.error2").value(), layer == 0 ? 1 : 19);
    set.sites.emplace(SiteKey{Site::kQ, layer, 0}, s);
  }
  EXPECT_EQ(SiteJson(set, Site::kQ)["rows"][0]["sqnr_db"]["int8/row.sqnr_db"], 30.0);
  EXPECT_EQ(OverviewSqnrJson(set, 0)["q"]["int8/row.sqnr_db"], 20.0);  // both layers together
  EXPECT_THAT(OverviewTable(set), HasSubstr("\nSQNR in dB    int8/row\nq                 20.0\n"));
  const Json q = SiteJson(set, Site::kQ);
  EXPECT_THAT(RowsCsv(std::span(&q, 1)), HasSubstr(",int8/row.sqnr_db\n"));
  EXPECT_EQ(OverviewTable(Example()).find("SQNR"), std::string::npos);
}

TEST(StatisticsReport, MissingSitesAreRefused) { EXPECT_THROW(SiteJson(Example(), Site::kV), Error); }

TEST(StatisticsReport, ThePapersTableIsPooledFromIt) {
  const StatisticsSet set = Example();
  EXPECT_EQ(OutliersAt(set.sites, Site::kAttnLogits, {}, {}, {}).absmax(), 16.0f);
  EXPECT_EQ(OutliersAt(set.sites, Site::kAttnLogits, {}, {}, 2).absmax(), 8.0f);
  EXPECT_EQ(OutliersAt(set.sites, Site::kAttnLogits, 0, 0, {}).count(), 2u);
  EXPECT_EQ(OutliersAt(set.sites, Site::kLayerOut, 0).absmax(), 3.0f);
}

}  // namespace
}  // namespace tare::statistics_report_test
