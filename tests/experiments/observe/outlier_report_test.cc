// SPDX-License-Identifier: Apache-2.0
// The JSON for other programs, the table and the CSV, from a few values set by hand; and the figures of a whole model
// against a recorder that keeps every value with its place and sorts them all.
#include "experiments/observe/full_observer.h"
#include "experiments/observe/statistics_job.h"
#include "experiments/observe/statistics_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <tuple>

#include "quant/base/parallel.h"
#include "tests/support/logits.h"

namespace tare::outlier_report_test {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::ElementsAre;

ModelConfig Config(const char* family) { return {.family = family, .layers = 2, .heads = 2, .kv_heads = 2}; }

void ShowLogits(FullObserver& observer, int layer, int head, std::vector<float> values) {
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
void ShowHidden(FullObserver& observer, int layer, std::vector<float> values, int64_t position = 9) {
  observer.Visit({.site = Site::kLayerOut,
                  .layer = layer,
                  .sequence = 6,
                  .first_row = position,
                  .rows = 1,
                  .first_columns = std::ssize(values),
                  .values = values.data(),
                  .stride = std::ssize(values)},
                 0);
}

// Powers of two, so that the median's bin reports 1.00390625 times the value.
constexpr double kMidpoint = 1 + 1.0 / 256;

StatisticsSet SetOf(FullObserver& observer) {
  StatisticsSet set;
  set.skip_first = kSkipFirst;
  set.MergeSites(observer.Take());
  return set;
}

StatisticsSet Filled(const char* family) {
  FullObserver observer = OutlierObserver(Config(family));
  ShowLogits(observer, 0, 0, {1, -16, 2});
  ShowLogits(observer, 0, 1, {4, 4});
  ShowLogits(observer, 1, 1, {8, 0.25f});
  ShowLogits(observer, 1, 1, {4096});  // one key
  ShowHidden(observer, 0, {0.5f, -32});
  ShowHidden(observer, 1, {64, 64, std::numeric_limits<float>::quiet_NaN()});
  ShowHidden(observer, 1, {512, 512, 0}, 0);
  return SetOf(observer);
}

Json Report(const char* family, const char* model = "m") {
  StatisticsSet set = Filled(family);
  set.tokens = 17;
  return OutlierJson(set, Config(family), model);
}

TEST(OutlierReportTest, JsonHasTheFiguresOfEverySite) {
  const Json json = Report("llama");
  EXPECT_EQ(json["schema"], "tare.stats/3");
  EXPECT_EQ(json["model"], "m");
  EXPECT_EQ(json["tokens"], 17);
  EXPECT_EQ(json["attn_logits"], (Json{{"count", 7},
                                       {"absmax", 16.0},
                                       {"median", 4 * kMidpoint},
                                       {"top1", 16.0},
                                       {"top2", 8.0},
                                       {"top3", 4.0},
                                       {"top10", nullptr},
                                       {"top100", nullptr},
                                       {"nonfinite", 0}}));
  EXPECT_EQ(json["layer_out"]["count"], 7);
  EXPECT_EQ(json["layer_out"]["top3"], 64.0);
  EXPECT_EQ(json["layer_out"]["nonfinite"], 1);
  ASSERT_EQ(json["layers"].size(), 2u);
  EXPECT_EQ(json["layers"][1]["layer"], 1);
  EXPECT_EQ(json["layers"][1]["attn_logits"]["count"], 2);
  EXPECT_EQ(json["layers"][0]["layer_out"]["absmax"], 32.0);
  EXPECT_EQ(json["layers"][0]["heads"][1]["head"], 1);
  EXPECT_EQ(json["layers"][0]["heads"][1]["absmax"], 4.0);
  EXPECT_EQ(json["layers"][1]["heads"][0]["count"], 0);
  EXPECT_TRUE(json["layers"][1]["heads"][0]["absmax"].is_null());
  EXPECT_TRUE(json["layers"][1]["heads"][0]["median"].is_null());
  EXPECT_TRUE(json["layers"][1]["heads"][0]["top1"].is_null());
  EXPECT_FALSE(json.contains("maps") || json["layers"][0].contains("maps") ||
               json["layers"][0]["heads"][0].contains("map"));
}

TEST(OutlierReportTest, DifferentialModelsHaveEachMap) {
  const Json json = Report("diffllama");
  ASSERT_EQ(json["maps"].size(), 2u);
  EXPECT_EQ(json["maps"][0]["map"], 1);
  EXPECT_EQ(json["maps"][0]["count"], 3);
  EXPECT_EQ(json["maps"][0]["absmax"], 16.0);
  EXPECT_EQ(json["maps"][1]["map"], 2);
  EXPECT_EQ(json["maps"][1]["count"], 4);
  EXPECT_EQ(json["maps"][1]["top3"], 4.0);
  EXPECT_EQ(json["layers"][0]["maps"][1]["count"], 2);
  EXPECT_EQ(json["layers"][0]["heads"][1]["map"], 2);
}

TEST(OutlierReportTest, TopValuesHaveTheirPlaces) {
  const Json top = Report("llama")["top"];
  ASSERT_EQ(top["attn_logits"].size(), 7u);
  EXPECT_EQ(top["attn_logits"][0],
            (Json{{"value", -16.0}, {"sequence", 5}, {"layer", 0}, {"head", 0}, {"query", 8}, {"key", 1}}));
  EXPECT_EQ(top["attn_logits"][3],
            (Json{{"value", 4.0}, {"sequence", 5}, {"layer", 0}, {"head", 1}, {"query", 8}, {"key", 1}}));
  ASSERT_EQ(top["layer_out"].size(), 7u);
  EXPECT_EQ(top["layer_out"][4], (Json{{"value", -32.0}, {"sequence", 6}, {"layer", 0}, {"token", 9}, {"channel", 1}}));
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::stringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<Json> Both() { return {Report("llama", "standard"), Report("diffllama", "differential")}; }

TEST(OutlierReportTest, TheRestLeavesOutTheFirstPosition) {
  const Json json = Report("diffllama");
  EXPECT_EQ(json["from"], 0);
  const Json& rest = json["rest"];
  EXPECT_EQ(rest["from"], 1);
  EXPECT_EQ(json["layer_out"]["top1"], 512.0);
  EXPECT_EQ(rest["layer_out"]["top1"], 64.0);
  EXPECT_EQ(rest["layer_out"]["count"], 4);
  EXPECT_EQ(rest["top"]["layer_out"].size(), 4u);
  EXPECT_EQ(rest["attn_logits"], json["attn_logits"]);  // shown from position 8 on
  EXPECT_EQ(rest["maps"], json["maps"]);
  StatisticsSet all = Filled("llama");
  all.skip_first = 0;
  EXPECT_FALSE(OutlierJson(all, Config("llama"), "m").contains("rest"));
}

TEST(OutlierReportTest, TableHasModelsSideBySide) {
  EXPECT_THAT(Lines(OutlierTable(Both())),
              ElementsAre("|x|          model         top-1  layer  channel  top-10  top-100  median",
                          "layer_out    standard        512      1        0       -        -   64.25",
                          "layer_out    differential    512      1        0       -        -   64.25",
                          "  from 1     standard         64      1        0       -        -   32.12",
                          "  from 1     differential     64      1        0       -        -   32.12",
                          "attn_logits  standard         16      0        -       -        -   4.016",
                          "attn_logits  differential     16      0        -       -        -   4.016",
                          "  map 1      differential     16      0        -       -        -   2.008",
                          "  map 2      differential      8      1        -       -        -   4.016",
                          "  from 1     standard         16      0        -       -        -   4.016",
                          "  from 1     differential     16      0        -       -        -   4.016",
                          "    map 1    differential     16      0        -       -        -   2.008",
                          "    map 2    differential      8      1        -       -        -   4.016"));
  EXPECT_THAT(OutlierLegend(Both()), testing::HasSubstr("from 1: without position 0 of every sequence\n"));
}

TEST(OutlierReportTest, CsvHasARowForEveryTarget) {
  const std::vector<std::string> lines = Lines(OutlierCsv(Both()));
  ASSERT_EQ(lines.size(), 1u + 2 * (2 + 2 * 4) + 2 * (4 + 2 * 4));
  EXPECT_EQ(lines[0], "model,site,layer,head,map,from,count,absmax,top1,top2,top3,top10,top100,median");
  EXPECT_EQ(lines[1], "standard,attn_logits,,,,0,7,16,16,8,4,,,4.015625");
  EXPECT_EQ(lines[2], "standard,layer_out,,,,0,7,512,512,512,64,,,64.25");
  EXPECT_EQ(lines[3], "standard,attn_logits,0,,,0,5,16,16,4,4,,,4.015625");
  EXPECT_EQ(lines[4], "standard,attn_logits,0,0,,0,3,16,16,2,1,,,2.0078125");
  EXPECT_EQ(lines[6], "standard,layer_out,0,,,0,2,32,32,0.5,,,,0.501953125");
  EXPECT_EQ(lines[8], "standard,attn_logits,1,0,,0,0,,,,,,,");
  EXPECT_EQ(lines[11], "standard,attn_logits,,,,1,7,16,16,8,4,,,4.015625");
  EXPECT_EQ(lines[12], "standard,layer_out,,,,1,4,64,64,64,32,,,32.125");
  EXPECT_EQ(lines[22], "differential,attn_logits,,,1,0,3,16,16,2,1,,,2.0078125");
  EXPECT_EQ(lines[27], "differential,attn_logits,0,1,2,0,2,4,4,4,,,,4");
}

constexpr int64_t kGoldenTokens = 37;

// Everything that the model uses, by site, layer and head.
class Recorder : public SiteVisitor {
 public:
  bool Wants(Site site, std::optional<int>) const override {
    return site == Site::kAttnLogits || site == Site::kLayerOut;
  }
  void Visit(const SiteBlock& b, int) override {
    const std::lock_guard lock(mutex_);
    for (int64_t r = 0; r < b.rows; ++r) {
      if (b.site == Site::kAttnLogits && b.Columns(r) == 1) continue;  // the softmax of one key ignores its logit
      for (int64_t c = 0; c < b.Columns(r); ++c) {
        values.push_back({b.site,
                          b.map.value_or(0),
                          {b.values[r * b.stride + c],
                           {b.sequence, b.layer.value_or(-1), b.head.value_or(-1), b.first_row + r, c}}});
      }
    }
  }

  struct Value {
    Site site;
    int map;
    TopValue at;
  };
  // Largest first.
  std::vector<TopValue> Sorted(const std::function<bool(const Value&)>& chosen) const {
    std::vector<TopValue> all;
    for (const Value& v : values) {
      if (chosen(v)) all.push_back(v.at);
    }
    std::ranges::sort(all, [](const TopValue& a, const TopValue& b) {
      const float x = std::fabs(a.value), y = std::fabs(b.value);
      return x != y ? x > y : a.place < b.place;
    });
    return all;
  }
  std::vector<Value> values;

 private:
  std::mutex mutex_;
};

void ExpectSame(const OutlierStatistics& actual, const std::vector<TopValue>& sorted, const std::string& what) {
  SCOPED_TRACE(what);
  ASSERT_FALSE(sorted.empty());
  EXPECT_EQ(actual.count(), sorted.size());
  EXPECT_EQ(actual.absmax(), std::fabs(sorted[0].value));
  EXPECT_EQ(actual.nonfinite, 0u);
  const std::vector<TopValue> top(sorted.begin(),
                                  sorted.begin() + static_cast<ptrdiff_t>(std::min<size_t>(100, sorted.size())));
  EXPECT_EQ(actual.top.Sorted(), top);
  const double median = std::fabs(sorted[sorted.size() / 2].value);  // of an even number, the lower of the middle two
  EXPECT_NEAR(actual.magnitudes.Median(), median, 0x1p-8 * median);  // outliers.h
}

class OutlierSortedTest : public testing::TestWithParam<const char*> {};

TEST_P(OutlierSortedTest, EqualsSortingEverything) {
  Model model(GoldenFolder(GetParam()));
  const ModelConfig& c = model.config();
  FullObserver all = OutlierObserver(c);
  Recorder recorder;
  SiteVisitor* const visitors[] = {&all, &recorder};
  model.Forward(GoldenBatch(GetParam()), visitors);
  const StatisticsSet set = SetOf(all);

  const auto logits = [&](std::optional<int> layer, std::optional<int> head, std::optional<int> map) {
    return recorder.Sorted([=](const Recorder::Value& v) {
      return v.site == Site::kAttnLogits && layer.value_or(v.at.place.layer) == v.at.place.layer &&
             head.value_or(v.at.place.head) == v.at.place.head && map.value_or(v.map) == v.map;
    });
  };
  const auto hidden = [&](std::optional<int> layer) {
    return recorder.Sorted([=](const Recorder::Value& v) {
      return v.site == Site::kLayerOut && layer.value_or(v.at.place.layer) == v.at.place.layer;
    });
  };
  // Only what the mask lets through, without the first query, which sees one key.
  const auto pairs = static_cast<size_t>(2 * (kGoldenTokens * (kGoldenTokens + 1) / 2 - 1));
  EXPECT_EQ(OutliersAt(set.sites, Site::kAttnLogits).count(), pairs * static_cast<size_t>(c.layers * c.heads));
  EXPECT_EQ(OutliersAt(set.sites, Site::kAttnLogits, 0, 1).count(), pairs);
  EXPECT_EQ(OutliersAt(set.sites, Site::kLayerOut, 0).count(), static_cast<size_t>(2 * kGoldenTokens * c.hidden));

  ExpectSame(OutliersAt(set.sites, Site::kAttnLogits), logits({}, {}, {}), "all");
  ExpectSame(OutliersAt(set.sites, Site::kLayerOut), hidden({}), "hidden");
  for (int layer = 0; layer < c.layers; ++layer) {
    ExpectSame(OutliersAt(set.sites, Site::kAttnLogits, layer), logits(layer, {}, {}), "layer");
    ExpectSame(OutliersAt(set.sites, Site::kLayerOut, layer), hidden(layer), "hidden of a layer");
    for (int head = 0; head < c.heads; ++head)
      ExpectSame(OutliersAt(set.sites, Site::kAttnLogits, layer, head), logits(layer, head, {}), "head");
  }
  for (int map = 1; map <= Maps(c); ++map) {
    ExpectSame(OutliersAt(set.sites, Site::kAttnLogits, {}, {}, map), logits({}, {}, map), "map");
    ExpectSame(OutliersAt(set.sites, Site::kAttnLogits, 1, {}, map), logits(1, {}, map), "map of a layer");
  }
  EXPECT_EQ(OutliersAt(set.sites, Site::kAttnLogits, {}, {}, 2).count(),
            Maps(c) == 2 ? pairs * static_cast<size_t>(c.layers * c.heads / 2) : 0);
}

INSTANTIATE_TEST_SUITE_P(Golden, OutlierSortedTest,
                         testing::Values("llama-old-config", "llama-gqa", "diffllama-mha", "diffllama-gqa"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST(OutlierFiguresTest, ThreadsDoNotMatter) {
  std::optional<OutlierStatistics> logits, hidden;
  for (const int threads : {1, 2, 5}) {
    SetThreads(threads);
    Model model(GoldenFolder("diffllama-gqa"));
    FullObserver all = OutlierObserver(model.config());
    SiteVisitor* const visitors[] = {&all};
    for (int i = 0; i < 2; ++i) model.Forward(GoldenBatch("diffllama-gqa"), visitors);
    const StatisticsSet set = SetOf(all);
    if (!logits) logits = OutliersAt(set.sites, Site::kAttnLogits), hidden = OutliersAt(set.sites, Site::kLayerOut);
    EXPECT_EQ(OutliersAt(set.sites, Site::kAttnLogits), *logits) << threads;
    EXPECT_EQ(OutliersAt(set.sites, Site::kLayerOut), *hidden) << threads;
  }
  SetThreads(0);
}

// The largest of a kind is the largest of its layers, and all values are of one kind; models of one kind have none.
TEST(OutlierReport, KindsOfAttentionWhereLayersDiffer) {
  const auto measured = [](const char* name) {
    Model model(GoldenFolder(name));
    std::vector<ScoredSequence> sequences;
    for (const std::vector<int32_t>& row : GoldenRows(name)) sequences.push_back({.tokens = row});
    const TokenInput input{.kind = TokenInput::Kind::kIds, .sequences = {}, .bos = {}, .path = "ids", .sha256 = "aa"};
    const StatisticsSet set =
        CollectStatistics(model, input, sequences, {.sites = kOutlierSites, .skip_first = 1}, "", {}, {});
    return OutlierJson(set, model.config(), model.Name());
  };
  const std::pair<const char*, std::vector<std::string>> expected[]{
      {"olmo3", {"window", "full"}}, {"smollm3", {"full", "no rotary"}}, {"phi4flash", {"window", "full", "shared"}}};
  for (const auto& [name, kinds] : expected) {
    const Json json = measured(name);
    std::vector<std::string> found;
    int64_t count = 0;
    for (const Json& kind : json["kinds"]) {
      found.push_back(kind["kind"]);
      count += kind["count"].get<int64_t>();
      double largest = 0;
      for (const int layer : kind["layers"])
        largest = std::max(largest, json["layers"][static_cast<size_t>(layer)]["attn_logits"]["top1"].get<double>());
      EXPECT_EQ(kind["top1"], largest) << name;
      EXPECT_THAT(OutlierTable({json}), testing::HasSubstr("\n  " + found.back() + " ")) << name;
    }
    EXPECT_EQ(found, kinds) << name;
    EXPECT_EQ(count, json["attn_logits"]["count"]) << name;
    EXPECT_EQ(json["rest"]["kinds"].size(), kinds.size()) << name;
  }
  EXPECT_FALSE(measured("ministral")["kinds"].empty());
  EXPECT_FALSE(measured("granite").contains("kinds"));
}

}  // namespace
}  // namespace tare::outlier_report_test
