// SPDX-License-Identifier: Apache-2.0
// Statistics of every selected site of a model: a SiteVisitor for what the forward pass shows, and a walk over the
// weights. The result is bit-identical for any number of threads and any order of blocks.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "experiments/model/model.h"
#include "experiments/observe/block_meter.h"
#include "experiments/observe/site_selection.h"
#include "quant/observe/site_statistics.h"

namespace tare {

class FullObserver : public SiteVisitor {
 public:
  // heads: of every layer, for what attention's output loses; without them that is not measured.
  FullObserver(SiteSelection selection, std::vector<MeasuredFormat> formats, MarkedSpans spans = {},
               std::vector<std::vector<OutputHead>> heads = {});
  ~FullObserver() override;

  bool Wants(Site site, std::optional<int> layer) const override;
  void BeginBatch(int64_t slots) override;  // the sequences of the batch before are whole now
  void Visit(const SiteBlock& block, int thread) override;

  // Who must see a batch in a pass of its own before this does, for formats whose scales span rows; null where none
  // does.
  SiteVisitor* FirstPass() { return scales_.Any() ? &scales_ : nullptr; }

  // The selected weights: rows are output channels, columns input channels, all of one "sequence".
  void ObserveWeights(const Model& model);

  // What was observed since the last call; not while a pass runs.
  std::map<SiteKey, SiteStatistics> Take();

 private:
  struct Target;
  struct Worker;

  bool NeedsValues(std::optional<int> layer) const;
  Target& TargetOf(const SiteKey& key);
  void CountOutliers(const SiteBlock& block, Target& target, Worker& worker);
  static void Gather(const SiteBlock& block, const BlockMeasures& measures, Target& target);
  void CloseSequences();
  void ObserveMatrix(Site site, std::optional<int> layer, const WeightMatrix& weight);

  const SiteSelection selection_;
  const std::vector<MeasuredFormat> formats_;
  WideScales scales_;
  const MarkedSpans spans_;
  ValueStore values_;
  const std::vector<std::string> format_names_;
  std::mutex mutex_;  // of targets_, not of what they hold
  std::map<SiteKey, std::unique_ptr<Target>> targets_;
  std::vector<std::unique_ptr<Worker>> workers_;  // one per thread
};

}  // namespace tare
