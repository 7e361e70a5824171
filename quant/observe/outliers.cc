// SPDX-License-Identifier: Apache-2.0
#include "quant/observe/outliers.h"

#include <algorithm>
#include <cmath>

namespace tare {
namespace {

// Values looked at again for one that may enter the top: small, because most of them do not; long enough for vectors.
constexpr size_t kChunk = 256;

// Between flushes, far below MagnitudeCounter's bound.
constexpr uint64_t kFlushAfter = uint64_t{1} << 24;

}  // namespace

float OutlierStatistics::absmax() const { return top.size() == 0 ? 0.0f : std::fabs(top.Sorted().front().value); }

void OutlierStatistics::AddNonfinite(const Place& place) {
  ++nonfinite;
  first_nonfinite = first_nonfinite ? std::min(*first_nonfinite, place) : place;
}

void OutlierStatistics::Merge(const OutlierStatistics& other) {
  top.Merge(other.top);
  magnitudes.Merge(other.magnitudes);
  nonfinite += other.nonfinite;
  if (other.first_nonfinite) {
    first_nonfinite = first_nonfinite ? std::min(*first_nonfinite, *other.first_nonfinite) : *other.first_nonfinite;
  }
}

void OutlierAccumulator::Locate(std::span<const float> run, Place place) {
  for (const float value : run) {
    if (!std::isfinite(value)) {
      local_.AddNonfinite(place);
    } else if (std::fabs(value) >= floor_) {
      local_.top.Offer(value, place);
    }
    ++place.column;
  }
  floor_ = std::max(floor_, local_.top.threshold());
}

void OutlierAccumulator::Add(std::span<const float> run, Place first) {
  while (!run.empty()) {
    const std::span<const float> chunk = run.first(std::min(run.size(), kChunk));
    const float largest = counter_.Count(chunk);
    // Of values equal to the threshold the first place ranks highest: if that cannot enter, none of the chunk can.
    const bool may_enter = largest >= floor_ && local_.top.Admits(largest, first);
    if (may_enter || !std::isfinite(largest)) Locate(chunk, first);
    first.column += static_cast<int64_t>(chunk.size());
    run = run.subspan(chunk.size());
    if (counter_.pending() >= kFlushAfter) counter_.FlushInto(local_.magnitudes);
  }
}

void OutlierAccumulator::FlushInto(OutlierStatistics& target) {
  counter_.FlushInto(target.magnitudes);
  target.Merge(local_);
  local_ = OutlierStatistics(local_.top.capacity());
  floor_ = 0.0f;
}

}  // namespace tare
