// SPDX-License-Identifier: Apache-2.0
#include "quant/observe/magnitude_histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "quant/base/error.h"

namespace tare {

int MagnitudeHistogram::BinOf(float value) { return static_cast<int>(std::bit_cast<uint32_t>(value) << 1 >> 17); }

float MagnitudeHistogram::MagnitudeOf(int bin) {
  return bin == 0 ? 0.0f : std::bit_cast<float>(static_cast<uint32_t>(bin) << 16 | 0x8000u);
}

void MagnitudeHistogram::AddCount(int bin, uint64_t count) {
  if (bin < 0 || bin >= kBins) Fail("magnitude histogram: got bin {}, expected 0 to {}", bin, kBins - 1);
  if (count == 0) return;
  if (count > std::numeric_limits<uint64_t>::max() - total_) Fail("magnitude histogram: more than 2^64-1 values");
  std::vector<uint64_t>& page = pages_[static_cast<size_t>(bin / kPageBins)];
  if (page.empty()) page.resize(kPageBins);
  page[static_cast<size_t>(bin % kPageBins)] += count;
  total_ += count;
}

void MagnitudeHistogram::AddPage(int page, std::span<const uint64_t, kPageBins> counts) {
  if (page < 0 || page >= kPages) Fail("magnitude histogram: got page {}, expected 0 to {}", page, kPages - 1);
  uint64_t sum = total_;
  for (const uint64_t count : counts) {
    if (__builtin_add_overflow(sum, count, &sum)) Fail("magnitude histogram: more than 2^64-1 values");
  }
  if (sum == total_) return;
  std::vector<uint64_t>& mine = pages_[static_cast<size_t>(page)];
  if (mine.empty()) mine.resize(kPageBins);
  for (size_t i = 0; i < counts.size(); ++i) mine[i] += counts[i];
  total_ = sum;
}

void MagnitudeHistogram::Merge(const MagnitudeHistogram& other) {
  for (int page = 0; page < kPages; ++page) {
    const std::vector<uint64_t>& theirs = other.pages_[static_cast<size_t>(page)];
    if (!theirs.empty()) AddPage(page, std::span<const uint64_t, kPageBins>(theirs));
  }
}

std::vector<std::pair<int, uint64_t>> MagnitudeHistogram::Counts() const {
  std::vector<std::pair<int, uint64_t>> counts;
  for (int page = 0; page < kPages; ++page) {
    int bin = page * kPageBins;
    for (const uint64_t count : pages_[static_cast<size_t>(page)]) {
      if (count > 0) counts.emplace_back(bin, count);
      ++bin;
    }
  }
  return counts;
}

float MagnitudeHistogram::Quantile(double q) const {
  if (!(q >= 0.0 && q <= 1.0)) Fail("quantile: got {}, expected 0 to 1", q);
  if (total_ == 0) return std::numeric_limits<float>::quiet_NaN();
  // Above 2^53 values q * total may round up past total, even past 2^64: then the last is meant.
  const double product = std::ceil(q * static_cast<double>(total_));
  const uint64_t rank =
      product >= static_cast<double>(total_) ? total_ : std::max(uint64_t{1}, static_cast<uint64_t>(product));
  uint64_t seen = 0;
  for (int page = 0; page < kPages; ++page) {
    int bin = page * kPageBins;
    for (const uint64_t count : pages_[static_cast<size_t>(page)]) {
      seen += count;
      if (seen >= rank) return MagnitudeOf(bin);
      ++bin;
    }
  }
  TARE_CHECK(false);
}

}  // namespace tare
