// SPDX-License-Identifier: Apache-2.0
// Outlier statistics of one target (a site, a layer, a head): the largest magnitudes with places, and quantiles of |x|.
// Infinities and NaN are counted and located, else left out. Merging is exact: any split, in any order, is equal.
//
// A thread owns one OutlierAccumulator and reuses it for one target after another:
//
//   accumulator.Begin(target);                     optional: skips values too small for the target's top values
//   accumulator.Add(run, {sequence, layer, head, row, column});
//   accumulator.FlushInto(target);                 under the target's lock, if threads share it
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "quant/base/aligned.h"

namespace tare {

// Quantiles of |x| over long streams: counts over the leading 16 bits of the float32 |x|. The sign is 0, so a bin is 8
// bits of exponent and 7 of the mantissa, 0 .. 0x7f7f for finite values. Merging adds integers: exact, in any order.
//
// Error: a bin of exponent e and mantissa m spans 2^e (1 + m/128) .. 2^e (1 + (m+1)/128), and a quantile is reported at
// its midpoint, off by at most 2^e/256. The value is at least 2^e, so the relative error is at most 2^-8 = 0.39 %,
// half of the bin width 2^-7. Below 2^-126 (subnormals) bins are 2^-133 wide and the error is at most 2^-134 absolute.
// Bin 0, [0, 2^-133), reports 0, since in practice it holds zeros; the error stays below 2^-133.
class MagnitudeHistogram {
 public:
  static constexpr int kPageBins = 128;  // one exponent
  static constexpr int kPages = 255;     // exponents of finite values
  static constexpr int kBins = kPages * kPageBins;

  // Bin of a finite value.
  static int BinOf(float value);
  // The value reported for a quantile in this bin.
  static float MagnitudeOf(int bin);

  // Only finite values: the caller counts and locates infinities and NaN.
  void Add(float value) { AddCount(BinOf(value), 1); }
  // Throws Error for a bin outside 0 .. kBins-1 or a total beyond 2^64-1, because counts may come from a file.
  void AddCount(int bin, uint64_t count);
  // Counts of one exponent's bins.
  void AddPage(int page, std::span<const uint64_t, kPageBins> counts);
  void Merge(const MagnitudeHistogram& other);

  uint64_t total() const { return total_; }
  // The non-empty bins, ascending, with their counts, as files store them.
  std::vector<std::pair<int, uint64_t>> Counts() const;

  // The order statistic ceil(q * total), product in double; the smallest for q = 0; q in [0, 1]. NaN if empty.
  float Quantile(double q) const;
  float Median() const { return Quantile(0.5); }

  friend bool operator==(const MagnitudeHistogram&, const MagnitudeHistogram&) = default;

 private:
  // A page is empty until a value falls into it; then it has kPageBins counts.
  std::array<std::vector<uint64_t>, kPages> pages_;
  uint64_t total_ = 0;
};

// The hot path of outlier statistics: a thread scans runs of floats and counts values in a flat table with
// MagnitudeHistogram's bins. A bin has kLanes counters, for neighbouring values crowd in few bins, and incrementing the
// counter just stored waits for that store. In chunks of 256: 0.5 ns per value on a Zen 4 core at 2.6 GHz, 0.2 of that
// for the maximum; reading two values per load cut the counting from 0.4 to 0.3.
class MagnitudeCounter {
 public:
  MagnitudeCounter();

  // Counts the run and returns its largest magnitude: 0 for an empty run, infinity or NaN if the run has one. FlushInto
  // drops infinities and NaN. At most kMaxPending values between two flushes.
  float Count(std::span<const float> run);
  static constexpr uint64_t kMaxPending = uint64_t{1} << 31;
  uint64_t pending() const { return pending_; }

  // Adds the counts to the histogram and restarts. Visits exponents from the largest down until every value is found.
  void FlushInto(MagnitudeHistogram& histogram);

 private:
  static constexpr size_t kLanes = 4;

  // Moves one exponent's counts out; returns how many values it held.
  uint64_t FlushPage(int page, MagnitudeHistogram& histogram);

  AlignedBuffer<uint32_t> table_;  // [256 exponents, with that of infinities and NaN, x 128 bins][kLanes]
  uint64_t pending_ = 0;
  float largest_ = 0.0f;  // largest magnitude since the last flush
};

// The K values of largest magnitude in a stream, each with its place. Exact and independent of the stream's order and
// split, because values are ranked by a total order: |x| descending, then place ascending.

// Attention logits: row = query, column = key. Hidden states: head = -1, row = token, column = channel.
struct Place {
  int64_t sequence = 0;
  int32_t layer = 0, head = 0;
  int64_t row = 0, column = 0;
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
  void Merge(const TopValues& other);  // the capacities must be equal

  // The magnitude below which nothing enters; 0 while there is room. An equal one may still enter by its place.
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
  // That of |x|, as MagnitudeHistogram says; no more than the largest, which may lie below its bin's midpoint.
  float Quantile(double q) const {
    const float of_bins = magnitudes.Quantile(q);
    return of_bins > absmax() ? absmax() : of_bins;
  }

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
