// SPDX-License-Identifier: Apache-2.0
// Statistics of a whole model against a recorder that keeps every value with its place and sorts them all; and that
// neither threads nor the order of blocks matter.
#include "experiments/observe/outlier_observer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <random>
#include <tuple>

#include "quant/base/parallel.h"
#include "tests/support/logits.h"

namespace tare {
namespace {

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
  EXPECT_NEAR(actual.magnitudes.Median(), median, 0x1p-8 * median);  // magnitude_histogram.h
}

class ObserverTest : public testing::TestWithParam<const char*> {};

TEST_P(ObserverTest, IsWhatSortingEverythingGives) {
  Model model(GoldenFolder(GetParam()));
  const ModelConfig& c = model.config();
  OutlierObserver observer(c);
  Recorder recorder;
  SiteVisitor* const visitors[] = {&observer, &recorder};
  model.Forward(GoldenBatch(GetParam()), visitors);

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
  // Only what the mask lets through.
  const auto pairs = static_cast<size_t>(2 * kGoldenTokens * (kGoldenTokens + 1) / 2);
  EXPECT_EQ(observer.AttentionLogits().count(), pairs * static_cast<size_t>(c.layers * c.heads));
  EXPECT_EQ(observer.AttentionLogits(0, 1).count(), pairs);
  EXPECT_EQ(observer.HiddenStates(0).count(), static_cast<size_t>(2 * kGoldenTokens * c.hidden));

  ExpectSame(observer.AttentionLogits(), logits({}, {}, {}), "all");
  ExpectSame(observer.HiddenStates(), hidden({}), "hidden");
  for (int layer = 0; layer < c.layers; ++layer) {
    ExpectSame(observer.AttentionLogits(layer), logits(layer, {}, {}), "layer");
    ExpectSame(observer.HiddenStates(layer), hidden(layer), "hidden of a layer");
    for (int head = 0; head < c.heads; ++head)
      ExpectSame(observer.AttentionLogits(layer, head), logits(layer, head, {}), "head");
  }
  for (int map = 1; map <= Maps(c); ++map) {
    ExpectSame(observer.AttentionLogits({}, {}, map), logits({}, {}, map), "map");
    ExpectSame(observer.AttentionLogits(1, {}, map), logits(1, {}, map), "map of a layer");
  }
  EXPECT_EQ(observer.AttentionLogits({}, {}, 2).count(),
            Maps(c) == 2 ? pairs * static_cast<size_t>(c.layers * c.heads / 2) : 0);
}

INSTANTIATE_TEST_SUITE_P(Golden, ObserverTest,
                         testing::Values("llama-old-config", "llama-gqa", "diffllama-mha", "diffllama-gqa"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST(OutlierObserverTest, ThreadsDoNotMatter) {
  std::optional<OutlierStatistics> logits, hidden;
  for (const int threads : {1, 2, 5}) {
    SetThreads(threads);
    Model model(GoldenFolder("diffllama-gqa"));
    OutlierObserver observer(model.config());
    SiteVisitor* const visitors[] = {&observer};
    for (int i = 0; i < 2; ++i) model.Forward(GoldenBatch("diffllama-gqa"), visitors);
    if (!logits) logits = observer.AttentionLogits(), hidden = observer.HiddenStates();
    EXPECT_EQ(observer.AttentionLogits(), *logits) << threads;
    EXPECT_EQ(observer.HiddenStates(), *hidden) << threads;
  }
  SetThreads(0);
}

// Made rows: 3 sequences of 2 layers and 4 heads, and their hidden states.
struct Rows {
  explicit Rows(int64_t tokens) {
    std::mt19937 random(static_cast<unsigned>(tokens));
    std::normal_distribution<float> normal;
    for (int64_t sequence = 0; sequence < 3; ++sequence) {
      for (int layer = 0; layer < 2; ++layer) {
        for (int head = -1; head < 4; ++head) {
          std::vector<float>& matrix = values[{sequence, layer, head}];
          matrix.resize(static_cast<size_t>(tokens * tokens));
          for (float& value : matrix) value = std::round(normal(random) * 16) / 16;  // so that many are equal
          for (int64_t row = 0; row < tokens; row += 10) {
            const bool logits = head >= 0;
            blocks.push_back({.site = logits ? Site::kAttnLogits : Site::kLayerOut,
                              .layer = layer,
                              .sequence = sequence,
                              .head = head,
                              .map = logits ? std::optional(1 + head / 2) : std::nullopt,
                              .first_row = row,
                              .rows = std::min<int64_t>(10, tokens - row),
                              .first_columns = logits ? row + 1 : tokens,
                              .column_step = logits ? 1 : 0,
                              .values = matrix.data() + row * tokens,
                              .stride = tokens});
          }
        }
      }
    }
  }
  std::map<std::tuple<int64_t, int, int>, std::vector<float>> values;
  std::vector<SiteBlock> blocks;
};

ModelConfig MadeConfig() { return {.family = "diffllama", .layers = 2, .heads = 4, .kv_heads = 4}; }

TEST(OutlierObserverTest, NeitherOrderNorThreadOfABlockMatters) {
  Rows rows(50);
  std::mt19937 random(1);
  SetThreads(5);
  OutlierObserver plain(MadeConfig());
  for (const SiteBlock& block : rows.blocks) plain.Visit(block, 0);
  for (int trial = 0; trial < 10; ++trial) {
    std::ranges::shuffle(rows.blocks, random);
    OutlierObserver observer(MadeConfig());
    for (const SiteBlock& block : rows.blocks) {
      observer.Visit(block, static_cast<int>(random() % 5));
      if (random() % 100 == 0) observer.HiddenStates();  // looking in between changes nothing
    }
    ASSERT_EQ(observer.AttentionLogits(), plain.AttentionLogits());
    ASSERT_EQ(observer.AttentionLogits(1, 3), plain.AttentionLogits(1, 3));
    ASSERT_EQ(observer.AttentionLogits({}, {}, 2), plain.AttentionLogits({}, {}, 2));
    ASSERT_EQ(observer.HiddenStates(0), plain.HiddenStates(0));
  }
  SetThreads(0);
}

TEST(OutlierObserverTest, NanAndInfinityAreCountedAndLocated) {
  Rows rows(20);
  rows.values[{2, 1, 3}][15 * 20 + 4] = std::numeric_limits<float>::quiet_NaN();
  rows.values[{1, 0, -1}][7 * 20 + 19] = -std::numeric_limits<float>::infinity();
  rows.values[{2, 1, 3}][4 * 20 + 15] = std::numeric_limits<float>::quiet_NaN();  // masked
  OutlierObserver observer(MadeConfig());
  for (const SiteBlock& block : rows.blocks) observer.Visit(block, 0);
  EXPECT_EQ(observer.AttentionLogits().nonfinite, 1u);
  EXPECT_EQ(observer.AttentionLogits().first_nonfinite, (Place{2, 1, 3, 15, 4}));
  EXPECT_EQ(observer.AttentionLogits().count(), 3u * 2 * 4 * 210 - 1);
  EXPECT_EQ(observer.HiddenStates().first_nonfinite, (Place{1, 0, -1, 7, 19}));
  EXPECT_EQ(observer.HiddenStates(1).nonfinite, 0u);
}

// What is kept is 100 values and the bins that were touched, a target: no more after a thousand times the values.
TEST(OutlierObserverTest, KeepsNoMoreOfALongerText) {
  Rows rows(50);
  OutlierObserver observer(MadeConfig());
  for (const SiteBlock& block : rows.blocks) observer.Visit(block, 0);
  const size_t bins = observer.AttentionLogits().magnitudes.Counts().size(), count = observer.AttentionLogits().count();
  for (int repeat = 1; repeat < 1000; ++repeat) {
    for (SiteBlock block : rows.blocks) {
      block.sequence += 3 * repeat;
      observer.Visit(block, 0);
    }
  }
  const OutlierStatistics all = observer.AttentionLogits();
  EXPECT_EQ(all.count(), 1000 * count);
  EXPECT_EQ(all.magnitudes.Counts().size(), bins);
  EXPECT_EQ(all.top.size(), 100u);
}

TEST(OutlierObserverTest, WantsWhatTheTableHas) {
  const OutlierObserver observer(MadeConfig());
  for (const SiteInfo& site : kSites)
    EXPECT_EQ(observer.Wants(site.site, 0), site.site == Site::kAttnLogits || site.site == Site::kLayerOut)
        << site.name;
}

}  // namespace
}  // namespace tare
