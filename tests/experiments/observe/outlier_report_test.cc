// SPDX-License-Identifier: Apache-2.0
// The JSON that other programs read, the table and the CSV, from a handful of values put in by hand.
#include "experiments/observe/outlier_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

namespace tare {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::ElementsAre;

ModelConfig Config(const char* family) { return {.family = family, .layers = 2, .heads = 2, .kv_heads = 2}; }

void ShowLogits(OutlierObserver& observer, int layer, int head, std::vector<float> values) {
  observer.Visit({.site = Site::kAttnLogits,
                  .layer = layer,
                  .sequence = 5,
                  .head = head,
                  .map = head + 1,
                  .first_row = 8,
                  .rows = 1,
                  .first_columns = std::ssize(values),
                  .values = values.data(),
                  .stride = std::ssize(values)},
                 0);
}
void ShowHidden(OutlierObserver& observer, int layer, std::vector<float> values) {
  observer.Visit({.site = Site::kLayerOut,
                  .layer = layer,
                  .sequence = 6,
                  .first_row = 9,
                  .rows = 1,
                  .first_columns = std::ssize(values),
                  .values = values.data(),
                  .stride = std::ssize(values)},
                 0);
}

// Powers of two, so that the median's bin reports 1.00390625 times the value.
constexpr double kMidpoint = 1 + 1.0 / 256;

void Fill(OutlierObserver& observer) {
  ShowLogits(observer, 0, 0, {1, -16, 2});
  ShowLogits(observer, 0, 1, {4, 4});
  ShowLogits(observer, 1, 1, {8});
  ShowHidden(observer, 0, {0.5f, -32});
  ShowHidden(observer, 1, {64, 64, std::numeric_limits<float>::quiet_NaN()});
}

TEST(OutlierReportTest, JsonHasTheFiguresOfEverySite) {
  OutlierObserver observer(Config("llama"));
  Fill(observer);
  const Json json = OutlierJson(observer, Config("llama"), "m", 17);
  EXPECT_EQ(json["schema"], "tare.stats/2");
  EXPECT_EQ(json["model"], "m");
  EXPECT_EQ(json["tokens"], 17);
  EXPECT_EQ(json["attn_logits"], (Json{{"count", 6},
                                       {"absmax", 16.0},
                                       {"median", 4 * kMidpoint},
                                       {"top1", 16.0},
                                       {"top2", 8.0},
                                       {"top3", 4.0},
                                       {"top10", nullptr},
                                       {"top100", nullptr},
                                       {"nonfinite", 0}}));
  EXPECT_EQ(json["layer_out"]["count"], 4);
  EXPECT_EQ(json["layer_out"]["top2"], 64.0);
  EXPECT_EQ(json["layer_out"]["nonfinite"], 1);
  ASSERT_EQ(json["layers"].size(), 2u);
  EXPECT_EQ(json["layers"][1]["layer"], 1);
  EXPECT_EQ(json["layers"][1]["attn_logits"]["count"], 1);
  EXPECT_EQ(json["layers"][0]["layer_out"]["absmax"], 32.0);
  EXPECT_EQ(json["layers"][0]["heads"][1]["head"], 1);
  EXPECT_EQ(json["layers"][0]["heads"][1]["absmax"], 4.0);
  EXPECT_EQ(json["layers"][1]["heads"][0]["count"], 0);
  EXPECT_TRUE(json["layers"][1]["heads"][0]["median"].is_null());
  EXPECT_TRUE(json["layers"][1]["heads"][0]["top1"].is_null());
  EXPECT_FALSE(json.contains("maps") || json["layers"][0].contains("maps") ||
               json["layers"][0]["heads"][0].contains("map"));
}

TEST(OutlierReportTest, DifferentialModelsHaveEachMap) {
  OutlierObserver observer(Config("diffllama"));
  Fill(observer);
  const Json json = OutlierJson(observer, Config("diffllama"), "m", 17);
  ASSERT_EQ(json["maps"].size(), 2u);
  EXPECT_EQ(json["maps"][0]["map"], 1);
  EXPECT_EQ(json["maps"][0]["count"], 3);
  EXPECT_EQ(json["maps"][0]["absmax"], 16.0);
  EXPECT_EQ(json["maps"][1]["map"], 2);
  EXPECT_EQ(json["maps"][1]["count"], 3);
  EXPECT_EQ(json["maps"][1]["top3"], 4.0);
  EXPECT_EQ(json["layers"][0]["maps"][1]["count"], 2);
  EXPECT_EQ(json["layers"][0]["heads"][1]["map"], 2);
}

TEST(OutlierReportTest, TopValuesSayWhereTheyAre) {
  OutlierObserver observer(Config("llama"));
  Fill(observer);
  const Json top = OutlierJson(observer, Config("llama"), "m", 17)["top"];
  ASSERT_EQ(top["attn_logits"].size(), 6u);
  EXPECT_EQ(top["attn_logits"][0],
            (Json{{"value", -16.0}, {"sequence", 5}, {"layer", 0}, {"head", 0}, {"query", 8}, {"key", 1}}));
  EXPECT_EQ(top["attn_logits"][3],
            (Json{{"value", 4.0}, {"sequence", 5}, {"layer", 0}, {"head", 1}, {"query", 8}, {"key", 1}}));
  ASSERT_EQ(top["layer_out"].size(), 4u);
  EXPECT_EQ(top["layer_out"][2], (Json{{"value", -32.0}, {"sequence", 6}, {"layer", 0}, {"token", 9}, {"channel", 1}}));
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::stringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<Json> Both() {
  OutlierObserver standard(Config("llama")), differential(Config("diffllama"));
  Fill(standard);
  Fill(differential);
  return {OutlierJson(standard, Config("llama"), "standard", 17),
          OutlierJson(differential, Config("diffllama"), "differential", 17)};
}

TEST(OutlierReportTest, TableHasModelsSideBySide) {
  EXPECT_THAT(Lines(OutlierTable(Both())),
              ElementsAre("|x|          model         top-1  top-2  top-3  top-10  top-100  median",
                          "attn_logits  standard         16      8      4       -        -   4.016",
                          "attn_logits  differential     16      8      4       -        -   4.016",
                          "  map 1      differential     16      2      1       -        -   2.008",
                          "  map 2      differential      8      4      4       -        -   4.016",
                          "layer_out    standard         64     64     32       -        -   32.12",
                          "layer_out    differential     64     64     32       -        -   32.12"));
}

TEST(OutlierReportTest, CsvHasARowForEveryTarget) {
  const std::vector<std::string> lines = Lines(OutlierCsv(Both()));
  ASSERT_EQ(lines.size(), 1u + (2 + 2 * 4) + (4 + 2 * 4));
  EXPECT_EQ(lines[0], "model,site,layer,head,map,count,absmax,top1,top2,top3,top10,top100,median");
  EXPECT_EQ(lines[1], "standard,attn_logits,,,,6,16.0,16.0,8.0,4.0,,,4.015625");
  EXPECT_EQ(lines[2], "standard,layer_out,,,,4,64.0,64.0,64.0,32.0,,,32.125");
  EXPECT_EQ(lines[3], "standard,attn_logits,0,,,5,16.0,16.0,4.0,4.0,,,4.015625");
  EXPECT_EQ(lines[4], "standard,attn_logits,0,0,,3,16.0,16.0,2.0,1.0,,,2.0078125");
  EXPECT_EQ(lines[6], "standard,layer_out,0,,,2,32.0,32.0,0.5,,,,0.501953125");
  EXPECT_EQ(lines[8], "standard,attn_logits,1,0,,0,0.0,,,,,,");
  EXPECT_EQ(lines[12], "differential,attn_logits,,,1,3,16.0,16.0,2.0,1.0,,,2.0078125");
  EXPECT_EQ(lines[17], "differential,attn_logits,0,1,2,2,4.0,4.0,4.0,,,,4.015625");
}

}  // namespace
}  // namespace tare
