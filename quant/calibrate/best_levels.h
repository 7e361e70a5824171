// SPDX-License-Identifier: Apache-2.0
// The levels at which a law of values loses least: k-means of one dimension, exact, where Lloyd's iteration (levels of
// KVQuant, arXiv 2401.18079, section 3.3) finds a minimum near its start. Of sorted values each level serves a run of
// neighbours, so the best first j values for k levels follow from the best for k - 1 (dynamic programming; Bellman,
// 1973; Wang and Song, Ckmeans.1d.dp, The R Journal 3/2, 2011).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace tare {

// How often values occur, in bins 1/128 wide from -16 to 16. A value counts as its bin's middle, off by 1/256 at most,
// and one beyond as the last bin's. Sums are whole, so their order does not matter.
class LevelCounts {
 public:
  static constexpr int kBins = 4096;

  // values: finite.
  void Add(std::span<const float> values, float origin, float inv);
  LevelCounts& operator+=(const LevelCounts& other);

  int64_t total() const;
  int64_t at(int bin) const { return counts_[static_cast<size_t>(bin)]; }
  static double Middle(int bin) { return (bin - kBins / 2 + 0.5) / 128; }

 private:
  std::array<int64_t, kBins> counts_{};
};

// The mean of (x - nearest level)^2. 0 for no values.
double LevelLoss(const LevelCounts& counts, std::span<const float> levels);

// So many levels, rising, with the least loss, each rounded to 0.001. Throws Error where fewer bins hold values.
std::vector<float> BestLevels(const LevelCounts& counts, int levels);

}  // namespace tare
