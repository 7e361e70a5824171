// SPDX-License-Identifier: Apache-2.0
#include "experiments/observe/wide_scales.h"

#include <algorithm>
#include <cmath>

#include "kernels/elementwise/rows.h"

namespace tare {
namespace {

using Kind = Granularity::Kind;

}  // namespace

WideScales::WideScales(const SiteSelection& selection, std::span<const MeasuredFormat> formats)
    : selection_(selection) {
  for (const SiteInfo& info : kSites) {
    const std::vector<MeasuredFormat> measured = FormatsOf(info.site, formats);
    const auto spans = [&](const MeasuredFormat& format) { return format.SpansRows(info.site); };
    const auto by_channel = [&](const MeasuredFormat& format) {
      return format.granularity.kind == Kind::kChannel && spans(format);
    };
    spans_.push_back(std::ranges::any_of(measured, spans));
    by_channel_.push_back(std::ranges::any_of(measured, by_channel));
  }
}

bool WideScales::Any() const { return std::ranges::find(spans_, true) != spans_.end(); }

bool WideScales::Wants(Site site, std::optional<int> layer) const {
  return spans_[static_cast<size_t>(site)] && selection_.Wants(site, layer);
}

bool WideScales::Admits(const SiteBlock& block) const {
  return spans_[static_cast<size_t>(block.site)] && selection_.Admits(block.key());
}

void WideScales::BeginBatch(int64_t) {
  maxima_.Clear();
  channels_.Clear();
}

void WideScales::Visit(const SiteBlock& block, int) {
  if (!Admits(block)) return;
  float largest = 0.0f;
  std::vector<float> channels;
  if (by_channel_[static_cast<size_t>(block.site)]) channels.resize(static_cast<size_t>(block.first_columns));
  for (int64_t r = 0; r < block.rows; ++r) {
    const std::span<const float> row = block.Row(r);
    const float absmax = AbsMax(row.data(), row.size());
    if (!std::isfinite(absmax)) continue;
    largest = std::max(largest, absmax);
    for (size_t i = 0; i < channels.size(); ++i) channels[i] = std::max(channels[i], std::fabs(row[i]));
  }
  for (const Kind kind : {Kind::kTensor, Kind::kHead}) maxima_.Add(PlaceOf(block, kind), {largest});
  if (!channels.empty()) channels_.Add(PlaceOf(block, Kind::kChannel), channels);
}

WideClips WideScales::Find(const SiteBlock& block) const {
  if (!Admits(block)) return {};
  WideClips clips{.tensor = maxima_.At(PlaceOf(block, Kind::kTensor)).front(),
                  .head = maxima_.At(PlaceOf(block, Kind::kHead)).front(),
                  .channels = {}};
  if (by_channel_[static_cast<size_t>(block.site)]) clips.channels = channels_.At(PlaceOf(block, Kind::kChannel));
  return clips;
}

}  // namespace tare
