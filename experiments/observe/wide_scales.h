// SPDX-License-Identifier: Apache-2.0
// What becomes the largest code where a scale spans rows: it must be known before the first row is measured, so this
// visitor sees a batch in a pass of its own, before the one that measures. Of one sequence (of a weight: of all), as
// simulated plans have it (experiments/plan/simulated/simulated_quantizer.h):
//
//   tensor    all selected heads and maps, or all channels, of a layer's site
//   head      one head and map
//   channel   one channel, of its head where there are heads
//
// Rows with a value that is not finite take no part, as in the errors. What is kept is one float per channel of a
// batch's sequences: its values are of the batch at hand, so any split of a job into batches finds the same.
#pragma once

#include <span>
#include <vector>

#include "experiments/observe/measured_format.h"
#include "experiments/observe/site_selection.h"
#include "experiments/plan/shared_scales.h"
#include "quant/observe/site_visitor.h"

namespace tare {

class WideScales : public SiteVisitor {
 public:
  // The selection outlives it.
  WideScales(const SiteSelection& selection, std::span<const MeasuredFormat> formats);

  // Whether any selected site has such a format: without one no pass is needed.
  bool Any() const;
  bool Wants(Site site, std::optional<int> layer) const override;
  void BeginBatch(int64_t) override;
  void Visit(const SiteBlock& block, int thread) override;

  // For a block of the same batch, in the pass after; until the next batch begins. Zeros for what is not wanted.
  WideClips Find(const SiteBlock& block) const;

 private:
  bool Admits(const SiteBlock& block) const;

  const SiteSelection& selection_;
  std::vector<bool> spans_, by_channel_;  // per site
  SharedMaxima maxima_;                   // of tensors and heads
  SharedMaxima channels_;                 // of heads, where a format asks for them
};

}  // namespace tare
