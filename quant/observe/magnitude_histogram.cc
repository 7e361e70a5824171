// SPDX-License-Identifier: Apache-2.0
// The largest magnitude of a run, MagnitudeHistogram (bins, counts, merges, quantiles), and MagnitudeCounter.
#include "quant/observe/outliers.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "quant/base/message.h"
#include "quant/base/widest_vectors.h"

namespace tare {
namespace {

constexpr size_t kPageBins = MagnitudeHistogram::kPageBins;

// Magnitudes compare as their bits do: infinity above all numbers, NaN above infinity.
TARE_INTO_CALLER inline int32_t MagnitudeBits(float value) { return std::bit_cast<int32_t>(value) & 0x7fffffff; }

float LargestMagnitude(std::span<const float> run) {
  int32_t largest = 0;
  InWidestVectors([&]() TARE_INTO_CALLER {
    int32_t most = 0;
    for (const float value : run) {
      const int32_t bits = MagnitudeBits(value);
      most = bits > most ? bits : most;  // std::max takes references, and the loop stays scalar
    }
    largest = most;
  });
  return std::bit_cast<float>(largest);
}

}  // namespace

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
  for (const auto& [bin, count] : Counts()) {
    seen += count;
    if (seen >= rank) return MagnitudeOf(bin);
  }
  TARE_CHECK(false);
}

MagnitudeCounter::MagnitudeCounter() : table_(size_t{256} * kPageBins * kLanes) {
  std::ranges::fill(table_.span(), 0u);
}

float MagnitudeCounter::Count(std::span<const float> run) {
  TARE_CHECK(run.size() <= kMaxPending - pending_);
  uint32_t* const table = table_.data();
  const auto lane_of = [table](uint64_t bits, size_t lane) -> uint32_t& {
    return table[(bits & 0x7fff) * kLanes + lane];
  };
  size_t i = 0;
  for (; i + 4 <= run.size(); i += 4) {
    uint64_t first_two, last_two;
    std::memcpy(&first_two, &run[i], sizeof first_two);
    std::memcpy(&last_two, &run[i + 2], sizeof last_two);
    ++lane_of(first_two >> 16, 0);
    ++lane_of(first_two >> 48, 1);
    ++lane_of(last_two >> 16, 2);
    ++lane_of(last_two >> 48, 3);
  }
  for (; i < run.size(); ++i) ++lane_of(std::bit_cast<uint32_t>(run[i]) >> 16, 0);
  pending_ += run.size();
  const float largest = LargestMagnitude(run);
  largest_ = std::bit_cast<float>(std::max(MagnitudeBits(largest_), MagnitudeBits(largest)));
  return largest;
}

uint64_t MagnitudeCounter::FlushPage(int page, MagnitudeHistogram& histogram) {
  const std::span<uint32_t> counters =
      table_.span().subspan(static_cast<size_t>(page) * kPageBins * kLanes, kPageBins * kLanes);
  std::array<uint64_t, kPageBins> counts{};
  uint64_t total = 0;
  for (size_t bin = 0; bin < kPageBins; ++bin) {
    for (size_t lane = 0; lane < kLanes; ++lane) counts[bin] += counters[bin * kLanes + lane];
    total += counts[bin];
  }
  std::ranges::fill(counters, 0u);
  if (page < MagnitudeHistogram::kPages) histogram.AddPage(page, counts);
  return total;
}

void MagnitudeCounter::FlushInto(MagnitudeHistogram& histogram) {
  if (pending_ == 0) return;
  // Zeros first: else one of them would make every exponent be visited.
  uint64_t left = pending_ - FlushPage(0, histogram);
  for (int page = MagnitudeBits(largest_) >> 23; left > 0 && page > 0; --page) left -= FlushPage(page, histogram);
  TARE_CHECK(left == 0);
  pending_ = 0;
  largest_ = 0.0f;
}

}  // namespace tare
