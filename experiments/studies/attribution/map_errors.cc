// SPDX-License-Identifier: Apache-2.0
#include "experiments/studies/attribution/map_errors.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <ranges>
#include <tuple>

#include "experiments/model/config/family.h"
#include "quant/base/integers.h"
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

// A layer's attn_logits, probs and difference.
class KeptMaps : public SiteVisitor {
 public:
  bool Wants(Site site, std::optional<int>) const override {
    return site == Site::kAttnLogits || site == Site::kProbs || site == Site::kDifference;
  }
  void BeginBatch(int64_t) override { kept_.clear(); }
  // One thread has all rows of a head and sequence, in any order.
  void Visit(const SiteBlock& block, int) override {
    Rows& rows = RowsOf(block);
    const auto first = static_cast<size_t>(block.first_row), count = static_cast<size_t>(block.rows);
    rows.resize(std::max(rows.size(), first + count));
    for (size_t r = 0; r < count; ++r) {
      const auto row = block.Row(static_cast<int64_t>(r));
      rows[first + r].assign(row.begin(), row.end());
    }
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
                                   std::span<const OutputHead> table) {
  std::vector<MapErrors> of_head(sequences * table.size()), of_sequence(sequences);
  ParallelFor(of_head.size(), [&](size_t i, int) {
    const size_t slot = i / table.size(), head = i % table.size();
    of_head[i] = ErrorsOf(exact, noisy, static_cast<int>(slot), table[head], static_cast<int>(head));
  });
  for (size_t i = 0; i < of_head.size(); ++i) of_sequence[i / table.size()] += of_head[i];
  return of_sequence;
}

constexpr size_t kMostCells = 128;  // a side of a picture

Json NumbersOf(const Rows& rows) {
  const size_t side = CeilDiv(rows.size(), kMostCells);
  std::vector<std::vector<Json>> cells(CeilDiv(rows.size(), side));  // null: no entry
  for (size_t query = 0; query < rows.size(); ++query) {
    std::vector<Json>& row = cells[query / side];
    const size_t keys = rows[query].size(), first = query < keys ? 0 : query + 1 - keys;  // a window ends at its query
    row.resize(std::max(row.size(), (first + keys - 1) / side + 1));
    for (size_t i = 0; i < keys; ++i) {
      Json& cell = row[(first + i) / side];
      const float entry = rows[query][i];
      if (cell.is_null() || std::fabs(entry) > std::fabs(cell.get<float>())) cell = entry;
    }
  }
  for (Json& cell : cells | std::views::join) {
    if (!cell.is_null()) cell = std::stod(Formatted("{:.4g}", cell.get<float>()));
  }
  return cells;
}

// The first sequence's.
Json PictureOf(const KeptMaps& exact, const KeptMaps& noisy, const OutputHead& heads, int layer, int head) {
  const auto map = [&](const KeptMaps& kept, int of) -> const Rows& {
    return kept.At(0, Site::kProbs, heads.Q(of), of + 1);
  };
  const auto result = [&](const KeptMaps& kept) -> const Rows& {
    return heads.Differential() ? kept.At(0, Site::kDifference, head, {}) : map(kept, 0);
  };
  Rows error = result(noisy);
  double lambdas = 0;
  for (size_t query = 0; query < error.size(); ++query) {
    const std::vector<float>& row = result(exact)[query];
    std::ranges::transform(error[query], row, error[query].begin(), std::minus());
    if (heads.Differential()) lambdas += LambdaOf(map(exact, 0)[query], map(exact, 1)[query], row);
  }
  Json json{{"layer", layer},         {"head", head},
            {"tokens", error.size()}, {"cell", CeilDiv(error.size(), kMostCells)},
            {"lambda", nullptr},      {"maps", Json::array({NumbersOf(map(exact, 0))})},
            {"difference", nullptr},  {"error", NumbersOf(error)}};
  if (heads.Differential()) {
    json["lambda"] = lambdas / static_cast<double>(error.size());
    json["maps"].push_back(NumbersOf(map(exact, 1)));
    json["difference"] = NumbersOf(result(exact));
  }
  return json;
}

void CheckHead(const HeadPicture& picture, int heads) {
  if (picture.head >= heads)
    Fail("--heads: got head {} of layer {}, expected an output head, 0 to {}", picture.head, picture.layer, heads - 1);
}

void CheckPlaces(std::span<const HeadPicture> heads, const ModelSites& sites) {
  if (sites.row_weights != RowWeights::kSoftmax)
    Fail("errors of maps: got {}, expected softmax, of which the formulas are", VariantName(sites.row_weights));
  for (const HeadPicture& picture : heads) {
    if (picture.layer >= sites.layers || !sites.HasIn(Site::kProbs, picture.layer))
      Fail("--heads: got layer {}, expected one with attention, up to {}", picture.layer, sites.layers - 1);
  }
}

// What a layer shows, of one run and another.
struct BothMaps {
  KeptMaps exact, noisy;

  // Adds what it showed of so many sequences.
  void Add(int layer, size_t sequences, std::span<const OutputHead> table, LayerMapErrors& layers,
           std::span<HeadPicture> heads) const {
    std::ranges::copy(LayerErrors(exact, noisy, sequences, table),
                      std::back_inserter(layers[static_cast<size_t>(layer)]));
    for (HeadPicture& picture : heads) {
      if (picture.layer == layer && picture.json.is_null())
        picture.json = PictureOf(exact, noisy, table[static_cast<size_t>(picture.head)], layer, picture.head);
    }
  }
};

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
  using Sums = std::array<double, sizeof(MapErrors) / sizeof(double)>;  // all that it has
  auto sums = std::bit_cast<Sums>(*this);
  std::ranges::transform(sums, std::bit_cast<Sums>(other), sums.begin(), std::plus());
  return *this = std::bit_cast<MapErrors>(sums);
}

LayerMapErrors MeasureMapErrors(Model& exact, Model& planned, PlanRun& run,
                                const std::vector<ScoredSequence>& sequences, const Progress& progress,
                                std::span<HeadPicture> heads) {
  run.RefuseCache("maps");
  if (run.carrying() == Carrying::kExecuted)
    FailUsage("plan {}: got an executed plan, expected a simulated one: integer kernels show no maps",
              run.plan().canonical());
  const SiteVisitors plans = run.Begin(planned, progress);
  CheckPlaces(heads, ModelSitesOf(exact));
  for (const HeadPicture& picture : heads) CheckHead(picture, ModelSitesOf(exact).Heads(Site::kHeadOut));
  const ModelConfig& config = exact.config();
  const std::vector<OutputHead> table = HeadTable(config);
  BothMaps maps;
  SiteVisitor* const keep_exact[] = {&maps.exact};
  std::vector<SiteVisitor*> plan_and_keep(plans.begin(), plans.end());
  plan_and_keep.push_back(&maps.noisy);
  LayerMapErrors layers(static_cast<size_t>(config.layers));
  const size_t step = SequencesPerBatch(sequences);
  for (size_t begin = 0; begin < sequences.size(); begin += step) {
    const TokenBatch batch = BatchOf(sequences, begin, step);
    Stream x, shared;  // the second: keys and values under the plan, for the layers that share them
    exact.EmbedInto(batch, x);
    for (int layer = 0; layer < config.layers; ++layer) {
      Stream noisy = x;
      if (config.Kind(layer) == LayerKind::kSharedAttention) std::swap(noisy.k, shared.k), std::swap(noisy.v, shared.v);
      exact.RunLayer(batch, layer, x, keep_exact);
      planned.RunLayer(batch, layer, noisy, plan_and_keep);
      if (config.KeysLayer(layer) < 0) continue;
      std::swap(noisy.k, shared.k), std::swap(noisy.v, shared.v);
      maps.Add(layer, batch.sequences.size(), table, layers, heads);
    }
    Report(progress, static_cast<int64_t>(std::min(begin + step, sequences.size())), std::ssize(sequences), "windows");
  }
  return layers;
}

LayerMapErrors MeasureMapErrors(const CapturedInput& input, const Plan& plan, const Progress& progress,
                                std::span<HeadPicture> heads) {
  RequireRules(plan);
  BothMaps maps;
  LayerMapErrors layers;
  std::optional<SimulatedAttention> exact, planned;
  ForCapturedLayers(input, progress, [&](CapturedLayer& attention, const std::vector<int>& all) {
    CheckSoftmax("errors of maps", attention.problem());
    if (!planned) {
      const ModelSites sites = AttentionSites(attention.problem(), all);
      CheckPlaces(heads, sites);
      exact.emplace(Plan(), sites), planned.emplace(plan, sites);
      layers.resize(static_cast<size_t>(sites.layers));
    }
    for (const HeadPicture& picture : heads) {  // layers may have other numbers of heads
      if (picture.layer == attention.layer()) CheckHead(picture, attention.problem().out.heads);
    }
    for (const AttentionSequence& sequence : attention.sequences()) {
      attention.Show(sequence, *exact, maps.exact);
      attention.Show(sequence, *planned, maps.noisy);
      maps.Add(attention.layer(), 1, attention.problem().heads, layers, heads);
    }
  });
  return layers;
}

}  // namespace tare
