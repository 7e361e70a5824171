// SPDX-License-Identifier: Apache-2.0
// Statistics of every selected site of a model: a SiteVisitor for what the forward pass shows, and a walk over the
// weights. The result is bit-identical for any number of threads and any order of blocks.
//
// One pass measures all positions, and the rest without the first skip_first of every sequence: each row is measured
// once and counted among the first ones or the rest, and all are both together.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "experiments/model/model.h"
#include "experiments/observe/block_meter.h"
#include "experiments/observe/measured.h"
#include "quant/observe/statistics_set.h"

namespace tare {

class FullObserver : public SiteVisitor {
 public:
  // heads: of every layer, to measure the loss of attention's output; if empty, that is not measured. skip_first:
  // positions that the rest leaves out, fewer than BlockMeter::kSinkTokens.
  FullObserver(SiteSelection selection, std::vector<MeasuredFormat> formats, MarkedSpans spans = {},
               std::vector<std::vector<OutputHead>> heads = {}, int64_t skip_first = kSkipFirst);
  ~FullObserver() override;

  bool Wants(Site site, std::optional<int> layer) const override;
  void BeginBatch(int64_t slots) override;  // the previous batch's sequences are now complete
  void Visit(const SiteBlock& block, int thread) override;

  // A visitor that must see each batch in a separate earlier pass, for formats whose scales span rows; null if not
  // needed.
  SiteVisitor* FirstPass() { return scales_.Any() ? &scales_ : nullptr; }

  // Observes the selected weights: rows are output channels, columns input channels, all in one "sequence".
  void ObserveWeights(const Model& model);

  // Returns the statistics since the last call. Not during a pass.
  ObservedSites Take();

 private:
  struct Target;
  struct Worker;

  bool NeedsValues(std::optional<int> layer) const;
  Target& TargetOf(const SiteKey& key);
  static void CountOutliers(const SiteBlock& block, const BlockMeasures& measures, Target& target, Worker& worker);
  static void Gather(const SiteBlock& block, const BlockMeasures& measures, Target& target);
  void CloseSequences();
  // All matrices of a site in a layer, measured as one, below one another.
  void ObserveMatrices(Site site, std::optional<int> layer, std::span<const WeightMatrix> weights);

  const SiteSelection selection_;
  const std::vector<MeasuredFormat> formats_;
  WideScales scales_;
  const MarkedSpans spans_;
  ValueStore values_;
  const int64_t skip_first_;
  const std::vector<std::string> format_names_;
  std::mutex mutex_;  // protects targets_, not their contents
  std::map<SiteKey, std::unique_ptr<Target>> targets_;
  std::vector<std::unique_ptr<Worker>> workers_;  // one per thread
};

}  // namespace tare
