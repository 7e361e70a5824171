// SPDX-License-Identifier: Apache-2.0
#include "experiments/stats/wide_scales.h"

#include <algorithm>
#include <cmath>

#include "kernels/elementwise/rows.h"
#include "quant/base/error.h"
#include "quant/observe/site_statistics.h"

namespace tare {

WideScales::WideScales(const SiteSelection& selection, std::span<const MeasuredFormat> formats)
    : selection_(selection) {
  for (const SiteInfo& info : kSites) {
    const std::vector<MeasuredFormat> measured = FormatsOf(info.site, formats);
    const auto spans = [&](const MeasuredFormat& format) { return format.SpansRows(info.site); };
    const auto by_channel = [&](const MeasuredFormat& format) {
      return format.granularity.kind == Granularity::Kind::kChannel && spans(format);
    };
    spans_.push_back(std::ranges::any_of(measured, spans));
    by_channel_.push_back(std::ranges::any_of(measured, by_channel));
  }
}

bool WideScales::Any() const { return std::ranges::find(spans_, true) != spans_.end(); }

bool WideScales::Wants(Site site, int layer) const {
  return spans_[static_cast<size_t>(site)] && selection_.Wants(site, layer);
}

bool WideScales::Admits(const SiteBlock& block) const {
  return spans_[static_cast<size_t>(block.site)] && selection_.Admits(block.site, block.layer, block.head, block.map);
}

void WideScales::BeginBatch(int64_t) {
  heads_.clear();
  tensors_.clear();
}

void WideScales::Visit(const SiteBlock& block, int) {
  if (!Admits(block)) return;
  Maxima found;
  if (by_channel_[static_cast<size_t>(block.site)]) found.channels.resize(static_cast<size_t>(block.first_columns));
  for (int64_t r = 0; r < block.rows; ++r) {
    const std::span<const float> row = block.Row(r);
    const float absmax = AbsMax(row.data(), row.size());
    if (!std::isfinite(absmax)) continue;
    found.head = std::max(found.head, absmax);
    for (size_t i = 0; i < found.channels.size(); ++i)
      found.channels[i] = std::max(found.channels[i], std::fabs(row[i]));
  }
  const std::lock_guard lock(mutex_);
  float& tensor = tensors_[{block.sequence, block.site, block.layer}];
  tensor = std::max(tensor, found.head);
  Maxima& kept = heads_[{block.sequence, block.site, block.layer, block.head, block.map}];
  kept.head = std::max(kept.head, found.head);
  MergeMaxima(kept.channels, found.channels);
}

WideClips WideScales::Find(const SiteBlock& block) const {
  if (!Admits(block)) return {};
  const auto tensor = tensors_.find({block.sequence, block.site, block.layer});
  const auto head = heads_.find({block.sequence, block.site, block.layer, block.head, block.map});
  TARE_CHECK(tensor != tensors_.end() && head != heads_.end());  // the pass before has shown it
  return {tensor->second, head->second.head, head->second.channels};
}

}  // namespace tare
