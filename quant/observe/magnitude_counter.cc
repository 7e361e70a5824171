// SPDX-License-Identifier: Apache-2.0
#include "quant/observe/magnitude_counter.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "quant/base/error.h"

namespace tare {
namespace {

constexpr size_t kPageBins = MagnitudeHistogram::kPageBins;

// Magnitudes compare as their bits do: infinity above all numbers, NaN above infinity.
int32_t MagnitudeBits(float value) { return std::bit_cast<int32_t>(value) & 0x7fffffff; }
float LargerMagnitude(float a, float b) { return std::bit_cast<float>(std::max(MagnitudeBits(a), MagnitudeBits(b))); }

[[gnu::always_inline]] inline float LargestOfRun(std::span<const float> run) {
  int32_t largest = 0;
  for (const float value : run) {
    const int32_t bits = MagnitudeBits(value);
    largest = bits > largest ? bits : largest;  // std::max takes references, and the loop stays scalar
  }
  return std::bit_cast<float>(largest);
}

float LargestPlain(std::span<const float> run) { return LargestOfRun(run); }
using LargestOf = decltype(&LargestPlain);
#ifdef __x86_64__
[[gnu::target("avx2")]] float LargestAvx2(std::span<const float> run) { return LargestOfRun(run); }
LargestOf FastestLargest() { return __builtin_cpu_supports("avx2") ? LargestAvx2 : LargestPlain; }
#else
LargestOf FastestLargest() { return LargestPlain; }
#endif

float LargestMagnitude(std::span<const float> run) {
  static const LargestOf largest = FastestLargest();
  return largest(run);
}

}  // namespace

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
  largest_ = LargerMagnitude(largest_, largest);
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
