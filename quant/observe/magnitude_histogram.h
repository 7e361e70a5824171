// SPDX-License-Identifier: Apache-2.0
// Quantiles of |x| over streams too long to keep: counts over the leading 16 bits of the float32 |x|. The sign is 0, so
// a bin is 8 bits of exponent and the leading 7 of the mantissa, 0 .. 0x7f7f for finite values. Merging adds integers:
// exact, in any order.
//
// Error: a bin of exponent e and mantissa m spans 2^e (1 + m/128) .. 2^e (1 + (m+1)/128), and a quantile is reported at
// its midpoint, off by at most 2^e/256. The value is at least 2^e, so the relative error is at most 2^-8 = 0.39 %, half
// of the bin width 2^-7. Below 2^-126 (subnormals) bins are 2^-133 wide and the error is at most 2^-134 absolute. Bin
// 0, [0, 2^-133), reports 0: what falls there is zeros in practice, and the error stays under 2^-133.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace tare {

class MagnitudeHistogram {
 public:
  static constexpr int kPageBins = 128;  // one exponent
  static constexpr int kPages = 255;     // exponents of finite values
  static constexpr int kBins = kPages * kPageBins;

  // Bin of a finite value.
  static int BinOf(float value);
  // What a quantile in this bin is reported as.
  static float MagnitudeOf(int bin);

  // Infinities and NaN have no bin here: the caller counts and locates them.
  void Add(float value) { AddCount(BinOf(value), 1); }
  // Throws Error for a bin outside 0 .. kBins-1 or a total beyond 2^64-1: counts may come from a file.
  void AddCount(int bin, uint64_t count);
  // Counts of one exponent's bins.
  void AddPage(int page, std::span<const uint64_t, kPageBins> counts);
  void Merge(const MagnitudeHistogram& other);

  uint64_t total() const { return total_; }
  // The bins that are not empty, ascending, with their counts: what a file stores.
  std::vector<std::pair<int, uint64_t>> Counts() const;

  // Magnitude of the order statistic ceil(q * total), the smallest for q = 0; q in [0, 1]. NaN when there is nothing.
  // The product is taken in double. So Median of 1 2 3 4 is 2, the lower of the two middle ones.
  float Quantile(double q) const;
  float Median() const { return Quantile(0.5); }

  friend bool operator==(const MagnitudeHistogram&, const MagnitudeHistogram&) = default;

 private:
  // A page is empty until something falls there, then it has kPageBins counts.
  std::array<std::vector<uint64_t>, kPages> pages_;
  uint64_t total_ = 0;
};

}  // namespace tare
