// SPDX-License-Identifier: Apache-2.0
#include "experiments/studies/attribution/map_errors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include <nlohmann/json.hpp>

#include "tests/support/sweep_cells.h"

namespace tare::map_error_table_test {
namespace {

using ::testing::ElementsAre;

MapErrors Errors(double common) {
  const MapSums map{.keys = 100,
                    .logit_squares = 25,
                    .shiftless_squares = 16,
                    .rows = 10,
                    .exp_bias = 0.8,
                    .half_variance = 0.79,
                    .map_squares = 4,
                    .error_squares = 0.01,
                    .peak = -0.05,
                    .peak_formula = -0.06};
  return {.maps = {map, map},
          .difference = {.first_squares = 0.01,
                         .second_squares = 0.0025,
                         .common = common,
                         .map_squares = 1,
                         .error_squares = 0.0125 - 2 * common,
                         .peak = -0.02,
                         .peak_formula = -0.03}};
}

TEST(MapErrorTable, FitsEightyColumns) {
  const LayerMapErrors layers{{Errors(0.001), Errors(0.001)}};
  const std::vector<std::string> lines = Lines(MapErrorTable(MapErrorJson("k=int4/token", layers)));
  EXPECT_THAT(lines, ElementsAre("", "k=int4/token",
                                 "  layer          logits  no shift  exp bias  var / 2     map     peak  formula",
                                 "  0  map 1       0.5000    0.4000    0.0800   0.0790  0.0500  -0.0125  -0.0150",
                                 "     map 2       0.5000    0.4000    0.0800   0.0790  0.0500  -0.0125  -0.0150",
                                 "     difference, in common +0.160                     0.1025  -0.0200  -0.0300"));
  for (const std::string& line : lines) EXPECT_LE(line.size(), 80u) << line;
}

TEST(MapErrorTable, OneMapHasNoDifference) {
  MapErrors errors = Errors(0);
  errors.maps[1] = {};
  EXPECT_EQ(Lines(MapErrorTable(MapErrorJson("p", {{errors}}))).size(), 4u);
  const auto json = MapErrorJson("p", {{errors}});
  EXPECT_EQ(json.at("layers").at(0).at("maps").size(), 1u);
  EXPECT_TRUE(json.at("layers").at(0).at("difference").is_null());
}

TEST(MapErrorTable, RowsOfCsv) {
  MapErrors one = Errors(0);
  one.maps[1] = {};
  auto plans = nlohmann::ordered_json::array(
      {MapErrorJson("k=int4/token,q=int4/token", {{Errors(0.001)}}), MapErrorJson("p", {{one}})});
  for (auto& plan : plans) {
    for (auto& layer : plan["layers"]) {
      for (auto& map : layer["maps"]) map = {{"logit_rms", 0.5}, {"peak_formula", -0.25}};
      if (!layer["difference"].is_null()) layer["difference"] = {{"error", 0.5}, {"common", 0.25}, {"low", nullptr}};
    }
  }
  EXPECT_THAT(Lines(MapErrorCsv(plans)),
              ElementsAre("plan,layer,map,logit_rms,shiftless_rms,exp_bias,half_variance,error,peak,peak_formula,"
                          "common,low,high,correlation",
                          "\"k=int4/token,q=int4/token\",0,1,0.5,,,,,,-0.25,,,,",
                          "\"k=int4/token,q=int4/token\",0,2,0.5,,,,,,-0.25,,,,",
                          "\"k=int4/token,q=int4/token\",0,difference,,,,,0.5,,,0.25,,,", "p,0,1,0.5,,,,,,-0.25,,,,"));
}

// The share's interval is of its ratio over sequences.
TEST(MapErrorTable, CommonShareHasAnInterval) {
  std::vector<MapErrors> sequences;
  for (int i = 0; i < 4; ++i) {
    for (const double common : {0.001, 0.002, 0.0015, 0.001, 0.0005}) sequences.push_back(Errors(common));
  }
  const CommonShare common = CommonOf(sequences);
  EXPECT_NEAR(common.value, 2 * 0.006 / (5 * 0.0125), 1e-12);
  EXPECT_NEAR(common.correlation, 0.006 / (5 * 0.005), 1e-12);
  ASSERT_TRUE(common.interval.has_value());
  EXPECT_GT(common.interval->low, 0);
  EXPECT_LT(common.interval->low, common.value);
  EXPECT_GT(common.interval->high, common.value);
  EXPECT_FALSE(CommonOf(std::vector(19, Errors(0.001))).interval.has_value());
}

}  // namespace
}  // namespace tare::map_error_table_test
