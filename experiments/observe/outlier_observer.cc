// SPDX-License-Identifier: Apache-2.0
#include "experiments/observe/outlier_observer.h"

#include "quant/base/parallel.h"

namespace tare {

OutlierObserver::OutlierObserver(const ModelConfig& config)
    : layers_(config.layers), heads_(config.heads), table_(HeadTable(config)) {
  for (int i = 0; i < layers_ * heads_; ++i) logits_.push_back(std::make_unique<Target>());
  for (int i = 0; i < layers_; ++i) hidden_.push_back(std::make_unique<Target>());
  for (int i = 0; i < Threads(); ++i) workers_.push_back(std::make_unique<Worker>());
}

bool OutlierObserver::Wants(Site site, std::optional<int>) const {
  return site == Site::kAttnLogits || site == Site::kLayerOut;
}

void OutlierObserver::Switch(Worker& worker, Target* target) {
  if (worker.target != nullptr) {
    const std::lock_guard lock(worker.target->mutex);
    worker.accumulator.FlushInto(worker.target->statistics);
  }
  worker.target = target;
  worker.pending = 0;
  if (target == nullptr) return;
  const std::lock_guard lock(target->mutex);
  worker.accumulator.Begin(target->statistics);
}

void OutlierObserver::Visit(const SiteBlock& block, int thread) {
  Worker& worker = *workers_[thread];
  Target* target = block.site == Site::kAttnLogits ? logits_[*block.layer * heads_ + *block.head].get()
                                                   : hidden_[*block.layer].get();
  const auto most = static_cast<uint64_t>(block.rows * block.Columns(block.rows - 1));
  if (target != worker.target || worker.pending + most > MagnitudeCounter::kMaxPending) Switch(worker, target);
  worker.pending += most;
  for (int64_t r = 0; r < block.rows; ++r) {
    worker.accumulator.Add(block.Row(r), {.sequence = block.sequence,
                                          .layer = block.layer.value_or(-1),
                                          .head = block.head.value_or(-1),
                                          .row = block.first_row + r,
                                          .column = block.First(r)});
  }
}

void OutlierObserver::Settle() const {
  for (auto& worker : workers_) Switch(*worker, nullptr);
}

OutlierStatistics OutlierObserver::AttentionLogits(std::optional<int> layer, std::optional<int> head,
                                                   std::optional<int> map) const {
  Settle();
  OutlierStatistics all;
  for (int l = 0; l < layers_; ++l) {
    for (int h = 0; h < heads_; ++h) {
      if (layer.value_or(l) == l && head.value_or(h) == h && (!map || map == MapOf(table_, Site::kAttnLogits, h)))
        all.Merge(logits_[l * heads_ + h]->statistics);
    }
  }
  return all;
}

OutlierStatistics OutlierObserver::HiddenStates(std::optional<int> layer) const {
  Settle();
  OutlierStatistics all;
  for (int l = 0; l < layers_; ++l) {
    if (layer.value_or(l) == l) all.Merge(hidden_[l]->statistics);
  }
  return all;
}

}  // namespace tare
