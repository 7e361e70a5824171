// SPDX-License-Identifier: Apache-2.0
// Outlier statistics of one target (a site, a layer, a head): the largest magnitudes with their places, quantiles of
// |x|, and the infinities and NaN, which are counted and located but left out of everything else. Merging is exact and
// order-free: any split of the values, merged in any order, gives equal statistics.
//
// A thread owns one OutlierAccumulator and reuses it for one target after another:
//
//   accumulator.Begin(target);                     optional: skips what cannot enter the target's top values
//   accumulator.Add(run, {sequence, layer, head, row, column});
//   accumulator.FlushInto(target);                 under the target's lock, where threads share it
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "quant/observe/magnitude_counter.h"
#include "quant/observe/magnitude_histogram.h"
#include "quant/observe/top_values.h"

namespace tare {

struct OutlierStatistics {
  explicit OutlierStatistics(size_t top_capacity = TopValues::kDefaultCapacity) : top(top_capacity) {}

  TopValues top;
  MagnitudeHistogram magnitudes;
  uint64_t nonfinite = 0;                // how many infinities and NaN
  std::optional<Place> first_nonfinite;  // the first of them, in the order of places

  uint64_t count() const { return magnitudes.total(); }  // of finite values
  float absmax() const;                                  // of finite values; 0 when there are none

  void AddNonfinite(const Place& place);
  void Merge(const OutlierStatistics& other);
  friend bool operator==(const OutlierStatistics&, const OutlierStatistics&) = default;
};

class OutlierAccumulator {
 public:
  explicit OutlierAccumulator(size_t top_capacity = TopValues::kDefaultCapacity) : local_(top_capacity) {}

  // Takes the target's threshold, so that values which cannot enter are not looked at twice. The result does not depend
  // on it, as long as the next FlushInto goes to this target or to one that it is merged into.
  void Begin(const OutlierStatistics& target) { floor_ = target.top.threshold(); }

  // The run's values lie at first.column, first.column + 1, ...
  void Add(std::span<const float> run, Place first);

  // Merges what was added into the target and starts again. The capacities must be equal.
  void FlushInto(OutlierStatistics& target);

 private:
  void Locate(std::span<const float> run, Place place);

  MagnitudeCounter counter_;
  OutlierStatistics local_;
  float floor_ = 0.0f;
};

}  // namespace tare
