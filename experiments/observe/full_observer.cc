// SPDX-License-Identifier: Apache-2.0
#include "experiments/observe/full_observer.h"

#include <algorithm>

#include "experiments/model/plan_run.h"
#include "experiments/observe/statistics_report.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"

namespace tare {
namespace {

constexpr int64_t kWeightRows = 64;

// Blocks of a weight's rows, as f32; before: rows of the site's matrices before it.
void ShowMatrix(SiteVisitors visitors, Site site, std::optional<int> layer, const WeightMatrix& weight,
                int64_t before) {
  const int64_t blocks = (weight.out + kWeightRows - 1) / kWeightRows;
  ParallelFor(static_cast<size_t>(blocks), [&](size_t index, int thread) {
    const int64_t first = static_cast<int64_t>(index) * kWeightRows, rows = std::min(kWeightRows, weight.out - first);
    std::vector<float> values(static_cast<size_t>(rows * weight.in));
    RowsAsFloat(weight, first, rows, values.data(), "weights");
    const SiteBlock block{.site = site,
                          .layer = layer,
                          .first_row = before + first,
                          .rows = rows,
                          .first_columns = weight.in,
                          .values = values.data(),
                          .stride = weight.in};
    Visit(visitors, block, thread);
  });
}

// Adds measures that need the whole sequence, and the sequence to its group. skipped: positions that it lacks.
void CloseSequence(const SiteKey& key, int64_t index, Fold sequence, int64_t skipped, std::vector<Fold>& folds) {
  if (sequence.sequences == 0) return;  // no row of it counts
  sequence.sequences = 1;
  if (sequence.values > 1) sequence.sums.Add(kSumSequenceKurtosis, sequence.Powers().QuantizableKurtosis());
  sequence.sums.Add(kSumSequenceAbsmax, sequence.absmax);
  if (key.site == Site::kProbs && sequence.rows > 0) {
    constexpr size_t kEarlySinkMass = kBaseSums + 2, kSinkSequences = kBaseSums + 3;
    const long double tokens = std::min<long double>(sequence.rows, BlockMeter::kSinkTokens - skipped);
    if (sequence.sums.Value(kEarlySinkMass) / tokens > BlockMeter::kSinkShare) sequence.sums.Add(kSinkSequences, 1.0);
  }
  folds[static_cast<size_t>(index % SiteStatistics::kFolds)].Merge(sequence);
}

// Adds rows [begin, end) of the block to the sequence and the statistics.
void GatherRows(const BlockMeasures& block, const RowMeasures& part, int64_t begin, int64_t end, Fold& sequence,
                SiteStatistics& s) {
  if (!part.any) return;
  sequence.sequences = 1;
  sequence.rows += part.rows;
  sequence.values += part.values;
  sequence.absmax = std::max(sequence.absmax, part.absmax);
  for (size_t i = static_cast<size_t>(begin) * block.sums; i < static_cast<size_t>(end) * block.sums; ++i)
    sequence.sums.Add(i % block.sums, block.row_sums[i]);
  for (const auto& [row, moments] : block.centred) {
    if (begin <= row && row < end) sequence.AddPowers(moments);
  }
  if (part.largest) s.largest = std::max(s.largest.value_or(*part.largest), *part.largest);
  s.largest_row_norm = std::max(s.largest_row_norm, part.largest_row_norm);
  const size_t channels = part.channel_absmax.size();
  if (channels == 0) return;
  MergeMaxima(s.channel_absmax, part.channel_absmax);
  if (s.channel_energy.size() == 0) s.channel_energy = ExactSums(channels);
  for (size_t i = 0; i < part.channel_energy.size(); ++i) s.channel_energy.Add(i % channels, part.channel_energy[i]);
}

void GatherMaxima(const SiteBlock& block, const BlockMeasures& measures, int64_t begin, int64_t end,
                  std::vector<float>& tokens) {
  if (begin == end) return;
  if (tokens.size() < static_cast<size_t>(block.first_row + end))
    tokens.resize(static_cast<size_t>(block.first_row + end));
  for (int64_t r = begin; r < end; ++r) {
    float& token = tokens[static_cast<size_t>(block.first_row + r)];
    token = std::max(token, measures.row_absmax[static_cast<size_t>(r)]);
  }
}

}  // namespace

struct FullObserver::Target {
  // What of a sequence of this batch was seen.
  struct OpenSequence {
    explicit OpenSequence(size_t sums) : first(sums), rest(sums) {}

    Fold first, rest;
  };

  Target(const SiteKey& site_key, size_t sums) : key(site_key), all(sums), rest(sums) {}

  const SiteKey key;
  std::mutex mutex;
  // Until Take adds the rest, `all` has only first positions; its folds hold whole sequences: not all measures add up.
  SiteStatistics all, rest;
  std::map<int64_t, OpenSequence> open;  // sequences of this batch
};

struct FullObserver::Worker {
  // A thread keeps adding to the rest of one target of a site and map until a block belongs to another.
  struct Pending {
    OutlierAccumulator accumulator;
    Target* target = nullptr;

    void Switch(Target* next) {
      if (target == next) return;
      if (target != nullptr) {
        const std::lock_guard lock(target->mutex);
        accumulator.FlushInto(target->rest.outliers);
      }
      target = next;
      if (target == nullptr) return;
      const std::lock_guard lock(target->mutex);
      accumulator.Begin(target->rest.outliers);
    }
  };
  BlockMeter meter;
  std::array<std::unique_ptr<Pending>, kSites.size() * 3> pending = {};
};

FullObserver::FullObserver(SiteSelection selection, std::vector<MeasuredFormat> formats, MarkedSpans spans,
                           std::vector<std::vector<OutputHead>> heads, int64_t skip_first)
    : selection_(std::move(selection)),
      formats_(std::move(formats)),
      scales_(selection_, formats_),
      spans_(std::move(spans)),
      values_(std::move(heads)),
      skip_first_(skip_first),
      format_names_(NamesOf(formats_)) {
  TARE_CHECK(0 <= skip_first_ && skip_first_ < BlockMeter::kSinkTokens);
  for (int i = 0; i < Threads(); ++i)
    workers_.push_back(std::make_unique<Worker>(BlockMeter(formats_, spans_, values_, scales_, skip_first_)));
}

FullObserver::~FullObserver() = default;

// V is needed for the loss of attention's output, the first map for what the difference cancels.
bool FullObserver::Wants(Site site, std::optional<int> layer) const {
  if (selection_.Wants(site, layer)) return true;
  if (site == Site::kProbs) return selection_.Wants(Site::kDifference, layer);
  return site == Site::kV && NeedsValues(layer);
}

bool FullObserver::NeedsValues(std::optional<int> layer) const {
  return std::ranges::any_of(std::array{Site::kProbs, Site::kDifference},
                             [&](Site site) { return selection_.Wants(site, layer) && values_.Serves(site, layer); });
}

void FullObserver::BeginBatch(int64_t) { CloseSequences(); }

void FullObserver::CloseSequences() {
  for (auto& [key, target] : targets_) {
    for (auto& [index, seen] : target->open) {
      seen.first.Merge(seen.rest);
      CloseSequence(key, index, std::move(seen.first), 0, target->all.folds);
      CloseSequence(key, index, std::move(seen.rest), skip_first_, target->rest.folds);
    }
    target->open.clear();
  }
}

FullObserver::Target& FullObserver::TargetOf(const SiteKey& key) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Target>& target = targets_[key];
  if (target == nullptr) target = std::make_unique<Target>(key, SumNames(key.site, format_names_).size());
  return *target;
}

void FullObserver::CountOutliers(const SiteBlock& block, const BlockMeasures& measures, Target& target,
                                 Worker& worker) {
  const auto place = [&](int64_t r) {
    return Place{block.sequence, block.layer.value_or(-1), block.head.value_or(-1), block.first_row + r,
                 block.First(r)};
  };
  if (measures.first.any) {
    const std::lock_guard lock(target.mutex);
    for (int64_t r = 0; r < measures.first_rows; ++r) {
      if (Counts(block, r)) target.all.outliers.Add(block.Row(r), place(r));
    }
  }
  if (!measures.rest.any) return;
  auto& pending = worker.pending[static_cast<size_t>(block.site) * 3 + static_cast<size_t>(block.map.value_or(0))];
  if (pending == nullptr) pending = std::make_unique<Worker::Pending>();
  pending->Switch(&target);
  for (int64_t r = measures.first_rows; r < block.rows; ++r) {
    if (Counts(block, r)) pending->accumulator.Add(block.Row(r), place(r));
  }
}

void FullObserver::Gather(const SiteBlock& block, const BlockMeasures& measures, Target& target) {
  const std::lock_guard lock(target.mutex);
  Target::OpenSequence& open = target.open.try_emplace(block.sequence, measures.sums).first->second;
  GatherRows(measures, measures.first, 0, measures.first_rows, open.first, target.all);
  GatherRows(measures, measures.rest, measures.first_rows, block.rows, open.rest, target.rest);
  GatherMaxima(block, measures, 0, measures.first_rows, target.all.token_absmax);
  GatherMaxima(block, measures, measures.first_rows, block.rows, target.rest.token_absmax);
}

void FullObserver::Visit(const SiteBlock& block, int thread) {
  Worker& worker = *workers_[static_cast<size_t>(thread)];
  if (block.site == Site::kV && NeedsValues(block.layer)) values_.Keep(block);
  const bool admitted = selection_.Admits(block.key());
  if (!admitted && block.site != Site::kProbs) return;
  const BlockMeasures& measures = worker.meter.Measure(block);
  if (!admitted) return;
  Target& target = TargetOf(block.key());
  CountOutliers(block, measures, target, worker);
  Gather(block, measures, target);
}

void FullObserver::ObserveMatrices(Site site, std::optional<int> layer, std::span<const WeightMatrix> weights) {
  if (!selection_.Wants(site, layer)) return;
  const auto show = [&](SiteVisitor* visitor) {
    SiteVisitor* const visitors[] = {visitor};
    int64_t before = 0;
    for (const WeightMatrix& weight : weights) {
      ShowMatrix(visitors, site, layer, weight, before);
      before += weight.out;
    }
  };
  if (scales_.Wants(site, layer)) show(&scales_);
  show(this);
}

void FullObserver::ObserveWeights(const Model& model) {
  for (int layer = 0; layer < model.config().layers; ++layer) {
    const LayerWeights& w = model.layers()[static_cast<size_t>(layer)];
    std::map<Site, std::vector<WeightMatrix>> matrices;  // of experts many
    for (const LinearLayer& linear : LinearLayersOf(model.config(), layer))
      matrices[linear.place->weight].push_back(WeightsOf(w, linear).stored());
    for (const auto& [site, of] : matrices) ObserveMatrices(site, layer, of);
  }
  ObserveMatrices(Site::kLmHeadW, {}, {&model.head().stored(), 1});
  CloseSequences();
}

FullObserver OutlierObserver(const ModelConfig& config) {
  return FullObserver(SiteSelection::Parse(kOutlierSites, ModelSitesOf(config)), {});
}

ObservedSites FullObserver::Take() {
  for (auto& worker : workers_) {
    for (auto& pending : worker->pending) {
      if (pending != nullptr) pending->Switch(nullptr);
    }
  }
  CloseSequences();
  ObservedSites taken;
  for (auto& [key, target] : targets_) {
    target->all.MergeValues(target->rest);
    taken.sites.emplace(key, std::move(target->all));
    if (skip_first_ > 0 && !IsWeight(key.site)) taken.rest.emplace(key, std::move(target->rest));
  }
  targets_.clear();
  return taken;
}

}  // namespace tare
