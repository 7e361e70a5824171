// SPDX-License-Identifier: Apache-2.0
// Outlier statistics of one target (a site, a layer, a head): the largest magnitudes with their places, and quantiles
// of |x|. Infinities and NaN are counted and located but left out of everything else. Merging is exact: any split of
// the values, merged in any order, gives equal statistics.
//
// A thread owns one OutlierAccumulator and reuses it for one target after another:
//
//   accumulator.Begin(target);                     optional: skips values too small for the target's top values
//   accumulator.Add(run, {sequence, layer, head, row, column});
//   accumulator.FlushInto(target);                 under the target's lock, if threads share it
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "quant/observe/magnitude_histogram.h"

namespace tare {

// The K values of largest magnitude in a stream, each with its place. Exact and independent of the stream's order and
// split, because values are ranked by a total order: |x| descending, then place ascending.

// Attention logits: row = query, column = key. Hidden states: head = -1, row = token, column = channel.
struct Place {
  int64_t sequence = 0;
  int32_t layer = 0;
  int32_t head = 0;
  int64_t row = 0;
  int64_t column = 0;
  friend auto operator<=>(const Place&, const Place&) = default;
};

struct TopValue {
  float value = 0.0f;  // with its sign
  Place place;
  friend bool operator==(const TopValue&, const TopValue&) = default;
};

class TopValues {
 public:
  static constexpr size_t kDefaultCapacity = 100;

  explicit TopValues(size_t capacity = kDefaultCapacity);  // at least 1

  // Whether the value would enter now. NaN never does.
  bool Admits(float value, const Place& place) const;
  void Offer(float value, const Place& place);
  // The capacities must be equal.
  void Merge(const TopValues& other);

  // The magnitude below which nothing can enter; 0 while there is room. An equal magnitude may still enter by its
  // place.
  float threshold() const { return threshold_; }
  size_t capacity() const { return capacity_; }
  size_t size() const { return heap_.size(); }
  std::vector<TopValue> Sorted() const;  // largest first

  friend bool operator==(const TopValues& a, const TopValues& b) {
    return a.capacity_ == b.capacity_ && a.Sorted() == b.Sorted();
  }

 private:
  size_t capacity_;
  float threshold_ = 0.0f;
  std::vector<TopValue> heap_;  // the lowest-ranked value in front
};

struct OutlierStatistics {
  explicit OutlierStatistics(size_t top_capacity = TopValues::kDefaultCapacity) : top(top_capacity) {}

  TopValues top;
  MagnitudeHistogram magnitudes;
  uint64_t nonfinite = 0;                // number of infinities and NaN
  std::optional<Place> first_nonfinite;  // the first of them by place

  uint64_t count() const { return magnitudes.total(); }  // of finite values
  float absmax() const;                                  // of finite values; 0 if there are none

  // A few values, at first.column, first.column + 1, ...; an OutlierAccumulator is faster for many.
  void Add(std::span<const float> run, Place first);
  void AddNonfinite(const Place& place);
  void Merge(const OutlierStatistics& other);
  friend bool operator==(const OutlierStatistics&, const OutlierStatistics&) = default;
};

class OutlierAccumulator {
 public:
  explicit OutlierAccumulator(size_t top_capacity = TopValues::kDefaultCapacity) : local_(top_capacity) {}

  // Takes the target's threshold, so that values that cannot enter are skipped early. The result does not depend on it,
  // as long as the next FlushInto goes to this target or to one that it is later merged into.
  void Begin(const OutlierStatistics& target) { floor_ = target.top.threshold(); }

  // The run's values are at first.column, first.column + 1, ...
  void Add(std::span<const float> run, Place first);

  // Merges the added values into the target and starts again. The capacities must be equal.
  void FlushInto(OutlierStatistics& target);

 private:
  void Locate(std::span<const float> run, Place place);

  MagnitudeCounter counter_;
  OutlierStatistics local_;
  float floor_ = 0.0f;
};

}  // namespace tare
