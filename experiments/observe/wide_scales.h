// SPDX-License-Identifier: Apache-2.0
// The magnitude of the largest code when a scale spans rows: it must be known before the first row is measured, so this
// visitor sees each batch in a separate pass before the measuring one. Of one sequence (of a weight: of all), as
// simulated plans have it (experiments/plan/simulated/simulated_quantizer.h):
//
//   tensor    all selected heads and maps, or all channels, of a layer's site
//   head      one head and map
//   channel   one channel, of its head where there are heads
//
// Rows with a non-finite value are left out, as in the errors. It keeps one float per channel of a batch's sequences;
// these depend on that batch alone, so any split of a job into batches gives the same values.
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
