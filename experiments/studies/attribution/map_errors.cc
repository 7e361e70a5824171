// SPDX-License-Identifier: Apache-2.0
#include "experiments/studies/attribution/map_errors.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <mutex>
#include <tuple>

#include "experiments/model/config/family.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"

namespace tare {
namespace {

using Rows = std::vector<std::vector<float>>;  // by query, of the keys that it sees

// v P_j (S2 - P_j)
struct Flattening {
  double variance = 0, squares = 0;
  double At(double p) const { return variance * p * (squares - p); }
};

double ErrorAt(const MapRow& row, size_t j) { return double{row.noisy_map[j]} - double{row.map[j]}; }

Flattening AddMap(const MapRow& row, MapSums& sums) {
  const size_t n = row.map.size();
  double mean = 0, squares = 0, shiftless = 0, bias = 0;
  for (size_t j = 0; j < n; ++j) mean += (double{row.noisy_logits[j]} - double{row.logits[j]}) / static_cast<double>(n);
  for (size_t j = 0; j < n; ++j) {
    const double e = double{row.noisy_logits[j]} - double{row.logits[j]};
    squares += e * e;
    shiftless += (e - mean) * (e - mean);
    bias += std::expm1(e - mean) / static_cast<double>(n);
  }
  Flattening flattening{.variance = n > 1 ? shiftless / static_cast<double>(n - 1) : 0};
  for (const float p : row.map) flattening.squares += double{p} * double{p};
  sums.keys += static_cast<double>(n);
  sums.logit_squares += squares;
  sums.shiftless_squares += shiftless;
  sums.rows += 1;
  sums.exp_bias += bias;
  sums.half_variance += flattening.variance / 2;
  sums.map_squares += flattening.squares;
  for (size_t j = 0; j < n; ++j) {
    const double p = row.map[j], error = ErrorAt(row, j);
    sums.error_squares += error * error;
    sums.peak += error * p;
    sums.peak_formula += flattening.At(p) * p;
  }
  return flattening;
}

constexpr double MapSums::* kMapSums[] = {&MapSums::keys,        &MapSums::logit_squares, &MapSums::shiftless_squares,
                                          &MapSums::rows,        &MapSums::exp_bias,      &MapSums::half_variance,
                                          &MapSums::map_squares, &MapSums::error_squares, &MapSums::peak,
                                          &MapSums::peak_formula};
constexpr double DifferenceSums::* kDifferenceSums[] = {&DifferenceSums::first_squares, &DifferenceSums::second_squares,
                                                        &DifferenceSums::common,        &DifferenceSums::map_squares,
                                                        &DifferenceSums::error_squares, &DifferenceSums::peak,
                                                        &DifferenceSums::peak_formula};

// A layer's attn_logits, probs and difference.
class KeptMaps : public SiteVisitor {
 public:
  bool Wants(Site site, std::optional<int>) const override {
    return site == Site::kAttnLogits || site == Site::kProbs || site == Site::kDifference;
  }
  void BeginBatch(int64_t) override { kept_.clear(); }
  // One thread has all rows of a head and sequence.
  void Visit(const SiteBlock& block, int) override {
    Rows& rows = RowsOf(block);
    for (int64_t r = 0; r < block.rows; ++r) rows.emplace_back(block.Row(r).begin(), block.Row(r).end());
  }

  const Rows& At(int slot, Site site, int head, std::optional<int> map) const {
    return kept_.at({slot, site, head, map.value_or(0)});
  }

 private:
  using Place = std::tuple<int, Site, int, int>;

  Rows& RowsOf(const SiteBlock& block) {
    const std::lock_guard lock(mutex_);
    return kept_[{block.slot, block.site, block.head.value(), block.map.value_or(0)}];
  }

  std::mutex mutex_;  // of the table, whose entries stay where they are
  std::map<Place, Rows> kept_;
};

// lambda of a head's row, recovered from its maps and their difference.
double LambdaOf(std::span<const float> first, std::span<const float> second, std::span<const float> difference) {
  double products = 0, squares = 0;
  for (size_t j = 0; j < first.size(); ++j) {
    products += (double{first[j]} - double{difference[j]}) * double{second[j]};
    squares += double{second[j]} * double{second[j]};
  }
  return products / squares;  // a map sums to 1
}

MapErrors ErrorsOf(const KeptMaps& exact, const KeptMaps& noisy, int slot, const OutputHead& heads, int head) {
  const auto row = [&](int map, size_t r) {
    const int q = heads.Q(map);
    const auto of = [&](const KeptMaps& kept, Site site) { return std::span(kept.At(slot, site, q, map + 1).at(r)); };
    return MapRow{of(exact, Site::kAttnLogits), of(noisy, Site::kAttnLogits), of(exact, Site::kProbs),
                  of(noisy, Site::kProbs)};
  };
  MapErrors errors;
  const size_t rows = exact.At(slot, Site::kProbs, heads.q1, 1).size();
  for (size_t r = 0; r < rows; ++r) {
    const MapRow first = row(0, r);
    if (!heads.Differential()) {
      errors.Add(first);
      continue;
    }
    const MapRow second = row(1, r);
    const Rows& difference = exact.At(slot, Site::kDifference, head, {});
    errors.Add(first, second, LambdaOf(first.map, second.map, difference.at(r)));
  }
  return errors;
}

// The errors of a layer's maps in each of the batch's sequences.
std::vector<MapErrors> LayerErrors(const KeptMaps& exact, const KeptMaps& noisy, size_t sequences,
                                   const std::vector<OutputHead>& table) {
  std::vector<MapErrors> of_head(sequences * table.size()), of_sequence(sequences);
  ParallelFor(of_head.size(), [&](size_t i, int) {
    const size_t slot = i / table.size(), head = i % table.size();
    of_head[i] = ErrorsOf(exact, noisy, static_cast<int>(slot), table[head], static_cast<int>(head));
  });
  for (size_t i = 0; i < of_head.size(); ++i) of_sequence[i / table.size()] += of_head[i];
  return of_sequence;
}

}  // namespace

void MapErrors::Add(const MapRow& first) { AddMap(first, maps[0]); }

void MapErrors::Add(const MapRow& first, const MapRow& second, double lambda) {
  const Flattening flat_first = AddMap(first, maps[0]), flat_second = AddMap(second, maps[1]);
  DifferenceSums& d = difference;
  for (size_t j = 0; j < first.map.size(); ++j) {
    const double p1 = first.map[j], p2 = second.map[j], e1 = ErrorAt(first, j), e2 = lambda * ErrorAt(second, j);
    const double value = p1 - lambda * p2, error = e1 - e2;
    d.first_squares += e1 * e1;
    d.second_squares += e2 * e2;
    d.common += e1 * e2;
    d.map_squares += value * value;
    d.error_squares += error * error;
    d.peak += error * value;
    d.peak_formula += (flat_first.At(p1) - lambda * flat_second.At(p2)) * value;
  }
}

MapErrors& MapErrors::operator+=(const MapErrors& other) {
  for (size_t map = 0; map < maps.size(); ++map) {
    for (const auto sum : kMapSums) maps[map].*sum += other.maps[map].*sum;
  }
  for (const auto sum : kDifferenceSums) difference.*sum += other.difference.*sum;
  return *this;
}

LayerMapErrors MeasureMapErrors(Model& exact, Model& planned, PlanRun& run,
                                const std::vector<ScoredSequence>& sequences, const Progress& progress) {
  run.RefuseCache("maps");
  if (run.carrying() == Carrying::kExecuted)
    FailUsage("plan {}: got an executed plan, expected a simulated one: integer kernels show no maps",
              run.plan().canonical());
  const SiteVisitors plans = run.Begin(planned, progress);
  const std::vector<OutputHead> table = HeadTable(exact.config());
  KeptMaps exact_maps, noisy_maps;
  SiteVisitor* const keep_exact[] = {&exact_maps};
  std::vector<SiteVisitor*> plan_and_keep(plans.begin(), plans.end());
  plan_and_keep.push_back(&noisy_maps);
  LayerMapErrors layers(static_cast<size_t>(exact.config().layers));
  const size_t step = SequencesPerBatch(sequences);
  for (size_t begin = 0; begin < sequences.size(); begin += step) {
    const TokenBatch batch = BatchOf(sequences, begin, step);
    Stream x, shared;  // the second: keys and values under the plan, for the layers that share them
    exact.EmbedInto(batch, x);
    for (size_t layer = 0; layer < layers.size(); ++layer) {
      Stream noisy = x;
      const bool shares = exact.config().Kind(static_cast<int>(layer)) == LayerKind::kSharedAttention;
      if (shares) std::swap(noisy.k, shared.k), std::swap(noisy.v, shared.v);
      exact.RunLayer(batch, static_cast<int>(layer), x, keep_exact);
      planned.RunLayer(batch, static_cast<int>(layer), noisy, plan_and_keep);
      if (exact.config().KeysLayer(static_cast<int>(layer)) < 0) continue;
      std::swap(noisy.k, shared.k), std::swap(noisy.v, shared.v);
      std::ranges::copy(LayerErrors(exact_maps, noisy_maps, batch.sequences.size(), table),
                        std::back_inserter(layers[layer]));
    }
    Report(progress, static_cast<int64_t>(std::min(begin + step, sequences.size())), std::ssize(sequences), "windows");
  }
  return layers;
}

}  // namespace tare
