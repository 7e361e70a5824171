// SPDX-License-Identifier: Apache-2.0
// Statistics of all positions and of the rest, of streams made by hand whose first position is a huge constant; and
// rows of one key, which never count in attention logits. Whole models: full_observer_test.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "experiments/model/plan_run.h"
#include "experiments/observe/full_observer.h"
#include "quant/base/message.h"
#include "quant/observe/statistics_set.h"

namespace tare::first_positions_test {
namespace {

constexpr int64_t kChannels = 3;
const SiteKey kHidden{Site::kLayerOut, 0}, kLogits{Site::kAttnLogits, 0, 0, 1}, kMap{Site::kProbs, 0, 0, 1};

using Sequence = std::vector<float>;  // [tokens][kChannels]

Sequence Drawn(int64_t tokens, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  Sequence values(static_cast<size_t>(tokens * kChannels));
  for (float& v : values) v = normal(random);
  std::copy_n(std::begin({1000.0f, -2.0f, 1000.0f}), kChannels, values.begin());
  return values;
}

FullObserver ObserverOf(int64_t skip_first) {
  const ModelConfig config{.family = "llama", .ffn = 1, .layers = 1, .heads = 1, .kv_heads = 1};
  return FullObserver(SiteSelection::Parse("", ModelSitesOf(config)), {}, {}, {}, skip_first);
}

// Shows the sequence in blocks of at most four tokens.
void Show(FullObserver& observer, int64_t index, Sequence sequence) {
  const int64_t tokens = std::ssize(sequence) / kChannels;
  for (int64_t row = 0; row < tokens; row += 4)
    observer.Visit({.site = Site::kLayerOut,
                    .layer = 0,
                    .sequence = index,
                    .first_row = row,
                    .rows = std::min<int64_t>(4, tokens - row),
                    .first_columns = kChannels,
                    .values = &sequence[static_cast<size_t>(row * kChannels)],
                    .stride = kChannels},
                   0);
}

// Rows of `columns` values each, of which the mask lets the last `window` of the first 1, 2, 3, ... through.
void ShowMap(FullObserver& observer, Site site, int64_t index, std::vector<float> values, int64_t columns,
             int64_t window = 0) {
  observer.Visit({.site = site,
                  .layer = 0,
                  .sequence = index,
                  .head = 0,
                  .map = 1,
                  .rows = std::ssize(values) / columns,
                  .first_columns = 1,
                  .column_step = 1,
                  .window = window,
                  .values = values.data(),
                  .stride = columns},
                 0);
}

StatisticsSet SetOf(FullObserver& observer, int64_t skip_first) {
  StatisticsSet set;
  set.skip_first = skip_first;
  set.MergeSites(observer.Take());
  return set;
}

double Named(const Measures& measures, const std::string& name) {
  const auto found = std::ranges::find(measures, name, &Measures::value_type::first);
  EXPECT_NE(found, measures.end()) << name;
  return found == measures.end() ? 0 : found->second;
}

// The measures in plain double, over the tokens from `from` on.
struct Plain {
  std::vector<double> values;                  // of all sequences
  std::vector<std::vector<double>> sequences;  // those with a token from here on
  double row_norms = 0, rows = 0;

  Plain(const std::vector<Sequence>& all, int64_t from) {
    for (const Sequence& sequence : all) {
      std::vector<double> later;
      for (size_t i = static_cast<size_t>(from * kChannels); i < sequence.size(); i += kChannels) {
        double squares = 0;
        for (size_t c = i; c < i + kChannels; ++c) later.push_back(sequence[c]), squares += later.back() * later.back();
        row_norms += std::sqrt(squares);
        ++rows;
      }
      values.insert(values.end(), later.begin(), later.end());
      if (!later.empty()) sequences.push_back(later);
    }
  }
  static double Mean(const std::vector<double>& x) {
    double sum = 0;
    for (const double v : x) sum += v;
    return sum / static_cast<double>(x.size());
  }
  static double Central(const std::vector<double>& x, int power) {
    double sum = 0;
    for (const double v : x) sum += std::pow(v - Mean(x), power);
    return sum / static_cast<double>(x.size());
  }
  static double Largest(const std::vector<double>& x) {
    return std::abs(*std::ranges::max_element(x, {}, [](double v) { return std::abs(v); }));
  }
};

void ExpectLike(const Plain& plain, const StatisticsSet& set, const SitesFrom& of) {
  SCOPED_TRACE(of.from);
  const SiteStatistics& s = of.sites.at(kHidden);
  const Measures m = AllMeasures(set, kHidden, s);
  const double m2 = Plain::Central(plain.values, 2);
  // The statistics add in double, exactly beyond a row: far below 1e-9 of these figures.
  const auto near = [&](const std::string& name, double expected) {
    EXPECT_NEAR(Named(m, name), expected, 1e-9 * std::max(1.0, std::abs(expected))) << name;
  };
  EXPECT_EQ(s.outliers.count(), plain.values.size());
  near("absmax", Plain::Largest(plain.values));
  near("mean", Plain::Mean(plain.values));
  near("variance", m2);
  near("kurtosis", Plain::Central(plain.values, 4) / (m2 * m2));
  near("row_norm", plain.row_norms / plain.rows);
  double norms = 0, kurtoses = 0;
  for (const std::vector<double>& sequence : plain.sequences) {
    const auto n = static_cast<double>(sequence.size());
    const double s2 = Plain::Central(sequence, 2) * n / (n - 1);
    norms += Plain::Largest(sequence);
    kurtoses += Plain::Central(sequence, 4) / (s2 * s2 + 1e-6);
  }
  near("infinity_norm", norms / static_cast<double>(plain.sequences.size()));
  near("kurtosis_sequence", kurtoses / static_cast<double>(plain.sequences.size()));
  std::vector<double> magnitudes;
  for (const double v : plain.values) magnitudes.push_back(std::abs(v));
  std::ranges::sort(magnitudes, std::greater());
  const std::vector<TopValue> top = s.outliers.top.Sorted();
  ASSERT_EQ(top.size(), std::min<size_t>(100, magnitudes.size()));
  for (size_t i = 0; i < top.size(); ++i) EXPECT_EQ(std::abs(top[i].value), magnitudes[i]) << i;
}

TEST(FirstPositions, AHugeConstantCountsAmongAllAndNotInTheRest) {
  // One of the sequences has one token, which no rest has.
  const std::vector<Sequence> sequences = {Drawn(9, 1), Drawn(1, 2), Drawn(5, 3), Drawn(7, 4)};
  for (const int64_t skip : {1, 3, 6}) {
    FullObserver observer = ObserverOf(skip);
    for (size_t i = 0; i < sequences.size(); ++i) Show(observer, static_cast<int64_t>(i), sequences[i]);
    const StatisticsSet set = SetOf(observer, skip);
    ASSERT_EQ(set.Both().size(), 2u);
    for (const SitesFrom& of : set.Both()) ExpectLike(Plain(sequences, of.from), set, of);
    EXPECT_EQ(set.sites.at(kHidden).outliers.absmax(), 1000.0f);
    EXPECT_LT(set.rest.at(kHidden).outliers.absmax(), 10.0f);
    EXPECT_EQ(set.sites.at(kHidden).token_absmax[0], 1000.0f);
    EXPECT_EQ(set.rest.at(kHidden).token_absmax[0], 0.0f);
    EXPECT_EQ(set.sites.at(kHidden).channel_absmax[2], 1000.0f);
    EXPECT_LT(set.rest.at(kHidden).channel_absmax[2], 10.0f);
    EXPECT_EQ(set.sites.at(kHidden).Total().sequences, 4u);
  }
}

// What all positions give does not depend on how many of them the rest leaves out. Energies of channels are exact sums
// of rows' groups, which the first positions cut.
TEST(FirstPositions, AllPositionsAreTheSameForEveryRest) {
  const auto of = [](int64_t skip) {
    FullObserver observer = ObserverOf(skip);
    for (int i = 0; i < 40; ++i) Show(observer, i, Drawn(1 + i % 7, static_cast<uint64_t>(i)));
    SiteStatistics s = SetOf(observer, skip).sites.at(kHidden);
    for (size_t c = 0; c < s.channel_energy.size(); ++c) EXPECT_GT(s.channel_energy.Value(c), 1.0L);
    s.channel_energy = ExactSums();
    return s;
  };
  const SiteStatistics plain = of(0);
  for (const int64_t skip : {1, 2, 5, 63}) EXPECT_EQ(of(skip), plain) << skip;
  FullObserver observer = ObserverOf(0);
  Show(observer, 0, Drawn(4, 1));
  EXPECT_TRUE(observer.Take().rest.empty());
}

TEST(FirstPositions, ShardsMergeToTheBitsOfOneRun) {
  StatisticsSet whole, shards[2];
  for (StatisticsSet* set : {&whole, &shards[0], &shards[1]}) set->skip_first = 1, set->units = {0, 0};
  const auto run = [&](std::initializer_list<int> sequences, StatisticsSet& set) {
    FullObserver observer = ObserverOf(1);
    for (const int i : sequences) Show(observer, i, Drawn(1 + 3 * (i % 3), static_cast<uint64_t>(i)));
    set.MergeSites(observer.Take());
  };
  run({0, 1, 2, 3, 4, 5, 6}, whole);
  run({5, 1, 6}, shards[0]);
  run({0, 3}, shards[1]);
  run({4, 2}, shards[1]);  // after a checkpoint
  shards[0].units[0] = shards[1].units[1] = 1;
  whole.units = {1, 1};
  shards[0].Merge(shards[1], "a", "b");
  EXPECT_EQ(shards[0], whole);
  shards[1].skip_first = 2;
  EXPECT_THROW(whole.Merge(shards[1], "a", "b"), Error);
}

TEST(FirstPositions, OneTokenLeavesNoRest) {
  FullObserver observer = ObserverOf(1);
  Show(observer, 0, Drawn(1, 1));
  ShowMap(observer, Site::kAttnLogits, 0, {33.0f}, 1);
  ShowMap(observer, Site::kProbs, 0, {1.0f}, 1);
  const StatisticsSet set = SetOf(observer, 1);
  EXPECT_EQ(set.sites.at(kHidden).Total().sequences, 1u);
  EXPECT_EQ(set.sites.at(kMap).Total().sequences, 1u);
  for (const SiteKey& key : {kHidden, kLogits, kMap}) {
    const SiteStatistics& s = set.rest.at(key);
    EXPECT_EQ(s.outliers.count(), 0u);
    EXPECT_EQ(s.Total().sequences, 0u);
    const Measures m = AllMeasures(set, key, s);
    for (const char* name : {"absmax", "mean", "kurtosis", "infinity_norm", "median", "largest"})
      EXPECT_TRUE(std::isnan(Named(m, name))) << name;
  }
  EXPECT_EQ(set.sites.at(kLogits).outliers.count(), 0u);
  EXPECT_EQ(set.sites.at(kLogits).Total().sequences, 0u);
}

// A row of one key counts in no figure of attention logits, not even as infinite; the map's 1 does.
TEST(FirstPositions, RowsOfOneKeyAreNoAttentionLogits) {
  for (const int64_t skip : {0, 1}) {
    FullObserver observer = ObserverOf(skip);
    ShowMap(observer, Site::kAttnLogits, 0, {33, 0, 0, 3, -4, 0, 1, 2, 2}, 3);
    ShowMap(observer, Site::kAttnLogits, 1, {std::numeric_limits<float>::infinity(), 0, 6, 8}, 2);
    ShowMap(observer, Site::kProbs, 0, {1, 0, 0.5f, 0.5f}, 2);
    const StatisticsSet set = SetOf(observer, skip);
    for (const auto& [from, sites] : set.Both()) {
      const SiteStatistics& s = sites.at(kLogits);
      const Fold total = s.Total();
      EXPECT_EQ(s.outliers.count(), 7u);
      EXPECT_EQ(s.outliers.absmax(), 8.0f);
      EXPECT_EQ(s.outliers.nonfinite, 0u);
      EXPECT_EQ(total.rows, 3u);
      EXPECT_EQ(total.sums.Value(kSumX), 3.0L - 4 + 5 + 14);
      EXPECT_EQ(total.sums.Value(kSumRowNorm), 5.0L + 3 + 10);
      EXPECT_EQ(total.sums.Value(kSumSequenceAbsmax), 4.0L + 8);
      EXPECT_EQ(s.largest, 8.0f);
      EXPECT_EQ(s.token_absmax, (std::vector<float>{0, 8, 2}));
      EXPECT_EQ(sites.at(kMap).outliers.count(), from == 0 ? 3u : 2u);
    }
  }
}

// A sliding window of one key leaves no row; one of two keys only the first out.
TEST(FirstPositions, WindowsLeaveRowsOfOneKey) {
  const auto seen = [](int64_t window) {
    FullObserver observer = ObserverOf(1);
    ShowMap(observer, Site::kAttnLogits, 0, {90, 0, 0, 80, 1, 0, 70, 2, 3}, 3, window);
    return SetOf(observer, 1).sites.at(kLogits);
  };
  EXPECT_EQ(seen(1).outliers.count(), 0u);
  EXPECT_EQ(seen(2).outliers.count(), 4u);
  EXPECT_EQ(seen(2).outliers.absmax(), 80.0f);
  EXPECT_EQ(seen(2).Total().sums.Value(kSumX), 80.0L + 1 + 2 + 3);
  EXPECT_EQ(seen(0).outliers.count(), 5u);
}

// In the rest the early queries are those of the first 64 that it has: 0.25 is no sink, though the first query's 1 is
// one together with it.
TEST(FirstPositions, TheSinkRateOfTheRestLacksTheFirstQuery) {
  FullObserver observer = ObserverOf(1);
  ShowMap(observer, Site::kProbs, 0, {1, 0, 0.25f, 0.75f}, 2);
  ShowMap(observer, Site::kProbs, 1, {1, 0, 0.375f, 0.625f}, 2);
  const StatisticsSet set = SetOf(observer, 1);
  EXPECT_EQ(Named(AllMeasures(set, kMap, set.sites.at(kMap)), "sink_rate"), 1.0);
  EXPECT_EQ(Named(AllMeasures(set, kMap, set.rest.at(kMap)), "sink_rate"), 0.5);
  EXPECT_EQ(Named(AllMeasures(set, kMap, set.rest.at(kMap)), "sink_mass"), 0.3125);
}

// A text of more than 64 positions: of the rest 61 queries are early, and 18.5 / 61 is above 0.3, but 18.5 / 64 is not.
TEST(FirstPositions, EarlyQueriesOfTheRestAreThoseBefore64) {
  FullObserver observer = ObserverOf(3);
  std::vector<float> probs(70 * 70);
  for (size_t row = 3; row < 40; ++row) probs[row * 70] = 0.5f;
  ShowMap(observer, Site::kProbs, 0, probs, 70);
  const StatisticsSet set = SetOf(observer, 3);
  EXPECT_EQ(Named(AllMeasures(set, kMap, set.sites.at(kMap)), "sink_rate"), 0.0);
  EXPECT_EQ(Named(AllMeasures(set, kMap, set.rest.at(kMap)), "sink_rate"), 1.0);
}

TEST(FirstPositions, WeightsHaveNoPositions) {
  FullObserver observer = ObserverOf(1);
  float values[] = {50, 1, 2, 3};
  observer.Visit({.site = Site::kUpProjW, .layer = 0, .rows = 2, .first_columns = 2, .values = values, .stride = 2}, 0);
  const ObservedSites taken = observer.Take();
  EXPECT_EQ(taken.sites.at({Site::kUpProjW, 0}).outliers.count(), 4u);
  EXPECT_TRUE(taken.rest.empty());
}

}  // namespace
}  // namespace tare::first_positions_test
