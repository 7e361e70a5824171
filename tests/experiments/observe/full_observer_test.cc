// SPDX-License-Identifier: Apache-2.0
// Statistics of every site of the golden checkpoints, against a recorder that keeps all values and computes everything
// in plain double; and independence of threads, order and the split of the stream.
#include "experiments/observe/full_observer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <format>
#include <limits>
#include <numeric>

#include "experiments/model/plan_run.h"
#include "quant/base/parallel.h"
#include "quant/observe/statistics_set.h"
#include "tests/support/logits.h"
#include "tests/support/run_command.h"
#include "tests/support/site_recorder.h"

namespace tare::full_observer_test {
namespace {

FullObserver Observer(const Model& model, const std::string& sites = "", const std::string& formats = "") {
  std::vector<std::vector<OutputHead>> heads;
  for (const LayerWeights& layer : model.layers()) heads.push_back(layer.heads);
  return FullObserver(SiteSelection::Parse(sites, ModelSitesOf(model)), ParseMeasuredFormats(formats), {}, heads);
}

Moments Plain(const std::vector<const Row*>& rows) {
  Moments m;
  for (const Row* row : rows) {
    for (const long double v : *row) {
      m.count += 1;
      m.x += v;
      m.x2 += v * v;
      m.x3 += v * v * v;
      m.x4 += v * v * v * v;
    }
  }
  return m;
}

float Absmax(const Row& row) {
  float absmax = 0;
  for (const float v : row) absmax = std::max(absmax, std::fabs(v));
  return absmax;
}

double Named(const Measures& measures, const std::string& name) {
  for (const auto& [key, value] : measures) {
    if (key == name) return value;
  }
  ADD_FAILURE() << "no measure " << name;
  return 0;
}

// Double's rounding over some ten thousand terms, cancellation of the moments and all, is far below.
void ExpectClose(double actual, double expected, double scale, const std::string& what) {
  EXPECT_NEAR(actual, expected, 1e-9 * std::max(scale, std::fabs(expected))) << what;
}

// What every site has.
void ExpectBase(const SiteStatistics& s, const Measures& m, const Seen& seen) {
  std::vector<const Row*> rows;
  std::map<int64_t, std::vector<const Row*>> sequences;
  std::vector<float> token_absmax;
  double row_norm = 0, largest = -HUGE_VAL;
  for (const auto& [place, row] : seen.rows) {
    rows.push_back(&row);
    sequences[place.first].push_back(&row);
    row_norm += std::sqrt(static_cast<double>(Plain({&row}).x2));
    largest = std::max<double>(largest, *std::ranges::max_element(row));
    const auto position = static_cast<size_t>(place.second);
    if (token_absmax.size() <= position) token_absmax.resize(position + 1);
    token_absmax[position] = std::max(token_absmax[position], Absmax(row));
  }
  double sequence_kurtosis = 0, norms = 0;
  for (const auto& [sequence, of] : sequences) {
    sequence_kurtosis += Plain(of).QuantizableKurtosis();
    float absmax = 0;
    for (const Row* row : of) absmax = std::max(absmax, Absmax(*row));
    norms += absmax;
  }
  const Moments all = Plain(rows);
  const auto n = static_cast<double>(rows.size()), count = static_cast<double>(sequences.size());
  EXPECT_EQ(s.outliers.count(), static_cast<uint64_t>(all.count));
  ExpectClose(Named(m, "mean"), all.Mean(), std::sqrt(all.Variance()), "mean");
  ExpectClose(Named(m, "variance"), all.Variance(), 0, "variance");
  ExpectClose(Named(m, "kurtosis"), all.Kurtosis(), 0, "kurtosis");
  ExpectClose(Named(m, "kurtosis_sequence"), sequence_kurtosis / count, 0, "kurtosis_sequence");
  ExpectClose(Named(m, "infinity_norm"), norms / count, 0, "infinity_norm");
  ExpectClose(Named(m, "row_norm"), row_norm / n, 0, "row_norm");
  ExpectClose(Named(m, "largest"), largest, 0, "largest");
  EXPECT_EQ(s.token_absmax, token_absmax);
}

void ExpectChannels(const SiteStatistics& s, const Measures& m, const Seen& seen) {
  const size_t columns = seen.rows.begin()->second.size(), top = (columns + 99) / 100;
  std::vector<float> absmax(columns);
  std::vector<double> energy(columns);
  for (const auto& [place, row] : seen.rows) {
    for (size_t c = 0; c < columns; ++c) {
      absmax[c] = std::max(absmax[c], std::fabs(row[c]));
      energy[c] += static_cast<double>(row[c]) * row[c];
    }
  }
  EXPECT_EQ(s.channel_absmax, absmax);
  double kurtosis = 0;
  for (const auto& [place, row] : seen.rows) kurtosis += Plain({&row}).RowKurtosis();
  ExpectClose(Named(m, "kurtosis_row"), kurtosis / static_cast<double>(seen.rows.size()), 1, "kurtosis_row");
  for (size_t c = 0; c < columns; ++c)
    ExpectClose(static_cast<double>(s.channel_energy.Value(c)), energy[c], 0, "energy");
  std::ranges::sort(energy, std::greater<>());
  ExpectClose(TopChannelEnergy(s.channel_energy),
              std::accumulate(energy.begin(), energy.begin() + static_cast<ptrdiff_t>(top), 0.0) /
                  std::accumulate(energy.begin(), energy.end(), 0.0),
              0, "share of energy");
}

void ExpectProbs(const Measures& m, const Seen& seen) {
  double entropy = 0, sink = 0, sinks = 0;
  std::map<int64_t, std::pair<double, double>> early;  // mass and rows of the first 64 queries
  for (const auto& [place, row] : seen.rows) {
    for (const double p : row) entropy -= p > 0 ? p * std::log(p) : 0;
    sink += row[0];
    if (place.second < 64) early[place.first].first += row[0], early[place.first].second += 1;
  }
  for (const auto& [sequence, mass] : early) sinks += mass.first / mass.second > 0.3 ? 1 : 0;
  const auto n = static_cast<double>(seen.rows.size());
  EXPECT_NEAR(Named(m, "entropy"), entropy / n, 1e-6 * entropy / n);
  ExpectClose(Named(m, "sink_mass"), sink / n, 0, "sink_mass");
  ExpectClose(Named(m, "sink_rate"), sinks / static_cast<double>(early.size()), 0, "sink_rate");
}

void ExpectDifference(const Measures& m, const Seen& difference, const Seen& first_map) {
  double negative = 0, cancellation = 0, squares = 0, first_squares = 0;
  for (const auto& [place, row] : difference.rows) {
    double a = 0, p = 0;
    for (const double v : row) negative += v < 0 ? -v : 0, a += v * v;
    for (const double v : first_map.rows.at(place)) p += v * v;
    cancellation += std::sqrt(a / p);
    squares += a;
    first_squares += p;
  }
  const auto n = static_cast<double>(difference.rows.size());
  ExpectClose(Named(m, "negative_mass"), negative / n, 0, "negative_mass");
  ExpectClose(Named(m, "cancellation"), cancellation / n, 0, "cancellation");
  ExpectClose(Named(m, "cancellation_pooled"), std::sqrt(squares / first_squares), 0, "cancellation_pooled");
}

// What counts from a position on. The softmax ignores a row of one key.
Seen From(int64_t from, Site site, const Seen& all) {
  Seen seen = all;
  std::erase_if(seen.rows, [&](const auto& entry) {
    return entry.first.second < from || (site == Site::kAttnLogits && entry.second.size() == 1);
  });
  return seen;
}

class FullObserverTest : public testing::TestWithParam<const char*> {};

TEST_P(FullObserverTest, EveryMeasureEqualsPlainDouble) {
  Model model(GoldenFolder(GetParam()));
  FullObserver observer = Observer(model);
  Recorder recorder;
  SiteVisitor* const visitors[] = {&observer, &recorder};
  model.Forward(GoldenBatch(GetParam()), visitors);
  StatisticsSet set;
  set.skip_first = kSkipFirst;
  set.MergeSites(observer.Take());
  const std::vector<OutputHead>& heads = model.layers()[0].heads;
  for (const auto& [from, sites] : set.Both()) {
    ASSERT_EQ(sites.size(), recorder.sites.size());
    for (const auto& [key, all] : recorder.sites) {
      SCOPED_TRACE(TextOf(key) + " from " + std::to_string(from));
      ASSERT_TRUE(sites.contains(key));
      const Seen seen = From(from, key.site, all);
      const Measures measures = AllMeasures(set, key, sites.at(key));
      ExpectBase(sites.at(key), measures, seen);
      const bool keys = key.site == Site::kAttnLogits || key.site == Site::kProbs || key.site == Site::kDifference;
      if (!keys) ExpectChannels(sites.at(key), measures, seen);
      if (key.site == Site::kProbs) ExpectProbs(measures, seen);
      if (key.site == Site::kDifference) {
        const int first = heads[static_cast<size_t>(*key.head)].q1;
        ExpectDifference(measures, seen, recorder.sites.at({Site::kProbs, key.layer, first, 1}));
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Golden, FullObserverTest,
                         testing::Values("llama-mha", "llama-gqa", "diffllama-mha", "diffllama-gqa"));

// Sequence by sequence, backwards, or all in one pass.
StatisticsSet Observed(const std::string& name, int threads, bool split) {
  SetThreads(threads);
  Model model(GoldenFolder(name));
  FullObserver observer = Observer(model, "", "int6/row,int4/group8,int8/tensor,int6/head,int4/channel");
  observer.ObserveWeights(model);
  const std::vector<std::vector<int32_t>> rows = GoldenRows(name);
  std::vector<std::vector<size_t>> passes = {{0, 1}};
  if (split) passes = {{1}, {0}};
  StatisticsSet set;
  for (const std::vector<size_t>& pass : passes) {
    TokenBatch batch;
    for (const size_t i : pass) batch.Add(static_cast<int64_t>(i), rows[i]);
    SiteVisitor* const first[] = {observer.FirstPass()};
    model.Forward(batch, first);
    SiteVisitor* const visitors[] = {&observer};
    model.Forward(batch, visitors);
    set.MergeSites(observer.Take());
  }
  SetThreads(0);
  return set;
}

TEST(FullObserver, BitsDoNotDependOnThreadsOrSplit) {
  const auto whole = Observed("diffllama-gqa", 1, false);
  EXPECT_EQ(Observed("diffllama-gqa", 3, false), whole);
  EXPECT_EQ(Observed("diffllama-gqa", 7, false), whole);
  EXPECT_EQ(Observed("diffllama-gqa", 2, true), whole);
}

TEST(FullObserver, OutputErrorsAreThoseOfEverySixteenthQuery) {
  for (const std::string name : {"diffllama-gqa", "llama-gqa"}) {
    Model model(GoldenFolder(name));
    const bool differential = Maps(model.config()) == 2;
    const Site site = differential ? Site::kDifference : Site::kProbs;
    FullObserver observer = Observer(model, std::string(Name(site)));  // V is looked at all the same
    Recorder recorder;
    SiteVisitor* const visitors[] = {&observer, &recorder};
    model.Forward(GoldenBatch(name), visitors);
    StatisticsSet set;
    set.MergeSites(observer.Take());
    const SiteKey key{site, 1, 0, differential ? std::nullopt : std::optional(1)};
    const OutputHead& head = model.layers()[1].heads[0];
    double expected = 0;
    int rows = 0;
    for (const auto& [place, row] : recorder.sites.at(key).rows) {
      if (place.second % 16 != 15) continue;
      double all = 0, skipped = 0;
      for (int slice = 0; slice < head.VSlices(); ++slice) {
        const Seen& v = recorder.sites.at({Site::kV, 1, head.v[static_cast<size_t>(slice)]});
        for (size_t i = 0; i < v.rows.begin()->second.size(); ++i) {
          double output = 0, lost = 0;
          for (size_t k = 0; k < row.size(); ++k) {
            const double x = static_cast<double>(row[k]) * v.rows.at({place.first, static_cast<int64_t>(k)})[i];
            output += x;
            lost += std::fabs(row[k]) < static_cast<float>(0.1 * Absmax(row)) ? x : 0;
          }
          all += output * output;
          skipped += lost * lost;
        }
      }
      expected += std::sqrt(skipped / all);
      ++rows;
    }
    EXPECT_EQ(rows, 4);  // 15 and 31 of two sequences
    EXPECT_NEAR(Named(AllMeasures(set, key), "output_error_entries_0.1"), expected / rows, 1e-4) << name;
  }
}

TEST(FullObserver, WeightsAreObservedUnchanged) {
  Model model(GoldenFolder("llama-mha"));
  FullObserver observer = Observer(model, "weights,lm_head.w");
  observer.ObserveWeights(model);
  const auto sites = observer.Take().sites;
  EXPECT_EQ(sites.size(), static_cast<size_t>(7 * model.config().layers + 1));
  const WeightMatrix& up = model.layers()[1].up.stored();
  Row row(static_cast<size_t>(up.in));
  float absmax = 0;
  long double sum = 0;
  for (int64_t r = 0; r < up.out; ++r) {
    RowAsFloat(up, r, row.data());
    absmax = std::max(absmax, Absmax(row));
    for (const float v : row) sum += v;
  }
  const SiteStatistics& s = sites.at({Site::kUpProjW, 1});
  EXPECT_EQ(s.outliers.count(), static_cast<uint64_t>(up.out * up.in));
  EXPECT_EQ(s.outliers.absmax(), absmax);
  EXPECT_NEAR(s.Total().sums.Value(kSumX), sum, 1e-9);
  EXPECT_EQ(s.token_absmax.size(), static_cast<size_t>(up.out));
  EXPECT_EQ(s.channel_absmax.size(), static_cast<size_t>(up.in));
}

TEST(FullObserver, NonfiniteValuesAreLocatedAndNeverAveraged) {
  Model model(GoldenFolder("llama-mha"));
  FullObserver observer = Observer(model, "layer_out[l1]");
  EXPECT_FALSE(observer.Wants(Site::kLayerOut, 0));
  float values[] = {1, 2, std::numeric_limits<float>::quiet_NaN(), -3, -std::numeric_limits<float>::infinity(), -5};
  observer.Visit({.site = Site::kLayerOut,
                  .layer = 1,
                  .sequence = 4,
                  .first_row = 10,
                  .rows = 2,
                  .first_columns = 3,
                  .values = values,
                  .stride = 3},
                 0);
  const auto sites = observer.Take().sites;
  const SiteStatistics& s = sites.at({Site::kLayerOut, 1});
  EXPECT_EQ(s.outliers.nonfinite, 2u);
  EXPECT_EQ(s.outliers.first_nonfinite, (Place{4, 1, -1, 10, 2}));
  const Fold total = s.Total();
  EXPECT_EQ(total.values, 4u);
  EXPECT_EQ(total.rows, 0u);
  EXPECT_EQ(total.absmax, 5.0f);
  EXPECT_EQ(total.sums.Value(kSumX), -5.0L);
  EXPECT_EQ(total.sums.Value(kSumX2), 39.0L);
  EXPECT_EQ(s.largest, 2.0f);
  EXPECT_EQ(s.channel_absmax, (std::vector<float>{3, 2, 5}));
}

TEST(FullObserver, MarkedSpansMeasureTheirAttention) {
  const std::string name = "diffllama-mha";
  const TemporaryFolder folder;
  PutFile(folder / "spans.jsonl",
          "{\"sequence\": 1, \"answer\": [[3, 5]], \"noise\": [[6, 30]], \"queries\": [20, 37]}\n");
  const int64_t lengths[] = {37, 37};
  Model model(GoldenFolder(name));
  FullObserver observer(SiteSelection::Parse("probs,difference", ModelSitesOf(model)), {},
                        MarkedSpans::Load(folder / "spans.jsonl", lengths));
  Recorder recorder;
  SiteVisitor* const visitors[] = {&observer, &recorder};
  model.Forward(GoldenBatch(name), visitors);
  StatisticsSet set;
  set.MergeSites(observer.Take());
  for (const auto& [key, statistics] : set.sites) {
    double answer = 0, noise = 0;
    for (int64_t query = 20; query < 37; ++query) {
      double all = 0, on_answer = 0, on_noise = 0;
      const Row& row = recorder.sites.at(key).rows.at({1, query});
      for (size_t k = 0; k < row.size(); ++k) {
        const double mass = std::fabs(row[k]);
        all += mass;
        on_answer += k >= 3 && k < 5 ? mass : 0;
        on_noise += k >= 6 && k < 30 ? mass : 0;
      }
      answer += on_answer / all / 17;
      noise += on_noise / all / 17;
    }
    const Measures m = AllMeasures(set, key);
    ExpectClose(Named(m, "answer_mass"), answer, 0, "answer");
    ExpectClose(Named(m, "noise_mass"), noise, 0, "noise");
  }
}

TEST(FullObserver, MeasuresTheErrorOfFormats) {
  Model model(GoldenFolder("llama-mha"));
  FullObserver observer = Observer(model, "q", "int4/group2,int8/row");
  float values[] = {7, 3.4f, 0.7f, 0.25f};  // int4 by twos: 7 3, 0.7 0.3 (steps of 1 and 0.1; 2.5 steps round to even)
  observer.Visit(
      {.site = Site::kQ, .layer = 0, .head = 0, .map = 1, .rows = 1, .first_columns = 4, .values = values, .stride = 4},
      0);
  StatisticsSet set;
  set.formats = {"int4/group2", "int8/row"};
  set.MergeSites(observer.Take());
  const Measures m = AllMeasures(set, {Site::kQ, 0, 0, 1});
  const double error2 = 0.16 + 0.0025, x2 = 49 + 11.56 + 0.49 + 0.0625;
  EXPECT_NEAR(Named(m, "int4/group2.sqnr_db"), 10 * std::log10(x2 / error2), 1e-4);
  EXPECT_NEAR(Named(m, "int4/group2.relative_l1"), 0.45 / 11.35, 1e-6);
  EXPECT_GT(Named(m, "int8/row.sqnr_db"), 40.0);
  EXPECT_GT(Named(m, "int8/row.cosine"), 0.9999);
}

}  // namespace
}  // namespace tare::full_observer_test
