// SPDX-License-Identifier: Apache-2.0
#include "experiments/observe/full_observer.h"

#include <algorithm>
#include <array>

#include "quant/base/error.h"
#include "quant/base/parallel.h"

namespace tare {
namespace {

constexpr int64_t kWeightRows = 64;

// Blocks of a weight's rows, as f32.
void ShowMatrix(SiteVisitors visitors, Site site, std::optional<int> layer, const WeightMatrix& weight) {
  const int64_t blocks = (weight.out + kWeightRows - 1) / kWeightRows;
  ParallelFor(static_cast<size_t>(blocks), [&](size_t index, int thread) {
    const int64_t first = static_cast<int64_t>(index) * kWeightRows, rows = std::min(kWeightRows, weight.out - first);
    std::vector<float> values(static_cast<size_t>(rows * weight.in));
    for (int64_t r = 0; r < rows; ++r) RowAsFloat(weight, first + r, &values[static_cast<size_t>(r * weight.in)]);
    const SiteBlock block{.site = site,
                          .layer = layer,
                          .first_row = first,
                          .rows = rows,
                          .first_columns = weight.in,
                          .values = values.data(),
                          .stride = weight.in};
    Visit(visitors, block, thread);
  });
}

// Adds measures that need the whole sequence.
void AddWholeSequence(const SiteKey& key, Fold& sequence) {
  sequence.sequences = 1;
  if (sequence.values > 1) {
    sequence.sums.Add(kSumSequenceKurtosis, sequence.Powers().QuantizableKurtosis());
  }
  sequence.sums.Add(kSumSequenceAbsmax, sequence.absmax);
  if (key.site == Site::kProbs && sequence.rows > 0) {
    constexpr size_t kEarlySinkMass = kBaseSums + 2, kSinkSequences = kBaseSums + 3;
    const long double tokens = std::min<long double>(sequence.rows, BlockMeter::kSinkTokens);
    if (sequence.sums.Value(kEarlySinkMass) / tokens > BlockMeter::kSinkShare) sequence.sums.Add(kSinkSequences, 1.0);
  }
}

}  // namespace

struct FullObserver::Target {
  Target(const SiteKey& site_key, size_t sums) : key(site_key), statistics(sums) {}

  const SiteKey key;
  std::mutex mutex;
  SiteStatistics statistics;
  std::map<int64_t, Fold> open;  // sequences of this batch
};

struct FullObserver::Worker {
  Worker(std::span<const MeasuredFormat> formats, const MarkedSpans& spans, const ValueStore& values,
         const WideScales& scales)
      : meter(formats, spans, values, scales) {}

  // A thread keeps adding to one target of a site and map until a block belongs to another.
  struct Pending {
    OutlierAccumulator accumulator;
    Target* target = nullptr;

    void Switch(Target* next) {
      if (target == next) return;
      if (target != nullptr) {
        const std::lock_guard lock(target->mutex);
        accumulator.FlushInto(target->statistics.outliers);
      }
      target = next;
      if (target == nullptr) return;
      const std::lock_guard lock(target->mutex);
      accumulator.Begin(target->statistics.outliers);
    }
  };
  std::array<std::unique_ptr<Pending>, kSites.size() * 3> pending;
  BlockMeter meter;
};

FullObserver::FullObserver(SiteSelection selection, std::vector<MeasuredFormat> formats, MarkedSpans spans,
                           std::vector<std::vector<OutputHead>> heads)
    : selection_(std::move(selection)),
      formats_(std::move(formats)),
      scales_(selection_, formats_),
      spans_(std::move(spans)),
      values_(std::move(heads)),
      format_names_(NamesOf(formats_)) {
  for (int i = 0; i < Threads(); ++i) workers_.push_back(std::make_unique<Worker>(formats_, spans_, values_, scales_));
}

FullObserver::~FullObserver() = default;

// V is needed for the loss of attention's output, the first map for what the difference cancels.
bool FullObserver::Wants(Site site, std::optional<int> layer) const {
  if (selection_.Wants(site, layer)) return true;
  if (site == Site::kProbs) return selection_.Wants(Site::kDifference, layer);
  return site == Site::kV && NeedsValues(layer);
}

bool FullObserver::NeedsValues(std::optional<int> layer) const {
  for (const Site site : {Site::kProbs, Site::kDifference}) {
    if (selection_.Wants(site, layer) && values_.Serves(site, layer)) return true;
  }
  return false;
}

void FullObserver::BeginBatch(int64_t) { CloseSequences(); }

void FullObserver::CloseSequences() {
  for (auto& [key, target] : targets_) {
    for (auto& [sequence, fold] : target->open) {
      AddWholeSequence(key, fold);
      target->statistics.folds[static_cast<size_t>(sequence % SiteStatistics::kFolds)].Merge(fold);
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

void FullObserver::CountOutliers(const SiteBlock& block, Target& target, Worker& worker) {
  auto& pending = worker.pending[static_cast<size_t>(block.site) * 3 + static_cast<size_t>(block.map.value_or(0))];
  if (pending == nullptr) pending = std::make_unique<Worker::Pending>();
  pending->Switch(&target);
  for (int64_t r = 0; r < block.rows; ++r) {
    pending->accumulator.Add(block.Row(r), {.sequence = block.sequence,
                                            .layer = block.layer.value_or(-1),
                                            .head = block.head.value_or(-1),
                                            .row = block.first_row + r,
                                            .column = block.First(r)});
  }
}

void FullObserver::Gather(const SiteBlock& block, const BlockMeasures& measures, Target& target) {
  const std::lock_guard lock(target.mutex);
  SiteStatistics& s = target.statistics;
  const size_t sums = s.folds.front().sums.size();
  Fold& fold = target.open.try_emplace(block.sequence, sums).first->second;
  fold.rows += measures.rows;
  fold.values += measures.values;
  fold.absmax = std::max(fold.absmax, measures.absmax);
  for (size_t i = 0; i < measures.row_sums.size(); ++i) fold.sums.Add(i % sums, measures.row_sums[i]);
  if (measures.largest) s.largest = std::max(s.largest.value_or(*measures.largest), *measures.largest);
  s.largest_row_norm = std::max(s.largest_row_norm, measures.largest_row_norm);
  const auto end = static_cast<size_t>(block.first_row + block.rows);
  if (s.token_absmax.size() < end) s.token_absmax.resize(end);
  for (size_t r = 0; r < measures.row_absmax.size(); ++r) {
    float& token = s.token_absmax[static_cast<size_t>(block.first_row) + r];
    token = std::max(token, measures.row_absmax[r]);
  }
  const size_t channels = measures.channel_absmax.size();
  if (channels == 0) return;
  MergeMaxima(s.channel_absmax, measures.channel_absmax);
  if (s.channel_energy.size() == 0) s.channel_energy = ExactSums(channels);
  for (size_t i = 0; i < measures.channel_energy.size(); ++i)
    s.channel_energy.Add(i % channels, measures.channel_energy[i]);
}

void FullObserver::Visit(const SiteBlock& block, int thread) {
  Worker& worker = *workers_[static_cast<size_t>(thread)];
  if (block.site == Site::kV && NeedsValues(block.layer)) values_.Keep(block);
  const bool admitted = selection_.Admits(block.key());
  if (!admitted && block.site != Site::kProbs) return;
  const BlockMeasures& measures = worker.meter.Measure(block);
  if (!admitted) return;
  Target& target = TargetOf(block.key());
  CountOutliers(block, target, worker);
  Gather(block, measures, target);
}

void FullObserver::ObserveMatrix(Site site, std::optional<int> layer, const WeightMatrix& weight) {
  if (!selection_.Wants(site, layer)) return;
  SiteVisitor* const first_pass[] = {&scales_};
  if (scales_.Wants(site, layer)) ShowMatrix(first_pass, site, layer, weight);
  SiteVisitor* const visitors[] = {this};
  ShowMatrix(visitors, site, layer, weight);
}

void FullObserver::ObserveWeights(const Model& model) {
  for (int layer = 0; layer < model.config().layers; ++layer) {
    const LayerWeights& w = model.layers()[static_cast<size_t>(layer)];
    for (const LinearPlace& place : FamilyOf(model.config()).linear)
      ObserveMatrix(place.weight, layer, (w.*place.linear).weight);
  }
  const TensorView* head = model.files().Find(std::string(HeadTensor(model.config())));
  if (head == nullptr) return CloseSequences();
  const WeightType type = head->dtype == DType::kBF16  ? WeightType::kBf16
                          : head->dtype == DType::kF16 ? WeightType::kF16
                                                       : WeightType::kF32;
  ObserveMatrix(Site::kLmHeadW, {}, {head->bytes.data(), type, head->shape[0], head->shape[1]});
  CloseSequences();
}

std::map<SiteKey, SiteStatistics> FullObserver::Take() {
  for (auto& worker : workers_) {
    for (auto& pending : worker->pending) {
      if (pending != nullptr) pending->Switch(nullptr);
    }
  }
  CloseSequences();
  std::map<SiteKey, SiteStatistics> taken;
  for (auto& [key, target] : targets_) taken.emplace(key, std::move(target->statistics));
  targets_.clear();
  return taken;
}

}  // namespace tare
