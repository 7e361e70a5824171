// SPDX-License-Identifier: Apache-2.0
// Where to clip: the magnitude that becomes a format's largest code, chosen from the values (dynamic scales, +p99.9 and
// +mse) or from a histogram of |x| (static scales). The scale follows: ScaleFor(clip, format), round.h.
//
//   min-max      the largest magnitude
//   percentile   the order statistic ceil(p/100 n) of |x|: Wu et al., arXiv 2004.09602, section 3.1
//   least error  the clip c with the least sum (x - Q_c(x))^2: Banner et al., arXiv 1810.05723, on the data itself
//   entropy      the clip that loses the least information, by KL divergence of the clipped law from its codes':
//                Migacz, 8-bit Inference with TensorRT, 2017, with as many levels as the format has magnitudes
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "quant/observe/statistics_set.h"
#include "quant/plan/plan.h"

namespace tare {

// Candidate clips for least error and entropy: the largest magnitude times i/kClips, i = 1 .. kClips.
inline constexpr int kClips = 128;

// From finite values; 0 for none.
float PercentileClip(std::span<const float> values, double percentile);  // 0 < percentile <= 100
float LeastErrorClip(std::span<const float> values, const Format& format);

// From a histogram and its exact largest magnitude. A bin counts at its midpoint, off by at most 0.4 %.
float PercentileClip(const MagnitudeHistogram& magnitudes, float absmax, double percentile);
float LeastErrorClip(const MagnitudeHistogram& magnitudes, float absmax, const Format& format);
float EntropyClip(const MagnitudeHistogram& magnitudes, float absmax, const Format& format);

// ---- Static scales of plans, from a statistics file

// A rule with +static takes its clip from earlier statistics. Its options choose the calibrator: none is min-max,
// +p99.9 a percentile, +mse the least error; entropy is chosen by name only. Scales are per tensor (a layer's heads and
// maps), head (each head and map) or channel (min-max only: channels keep only maxima).
enum class Calibrator { kMinMax, kPercentile, kLeastError, kEntropy };

struct Calibration {
  Calibrator calibrator = Calibrator::kMinMax;
  double percentile = 100.0;  // of kPercentile
};

// What the statistics file stores for each calibrated format, in this order: minmax p99.9 p99.99 mse entropy.
struct NamedCalibration {
  std::string_view name;
  Calibration calibration;
};
inline constexpr NamedCalibration kCalibrations[] = {{"minmax", {Calibrator::kMinMax}},
                                                     {"p99.9", {Calibrator::kPercentile, 99.9}},
                                                     {"p99.99", {Calibrator::kPercentile, 99.99}},
                                                     {"mse", {Calibrator::kLeastError}},
                                                     {"entropy", {Calibrator::kEntropy}}};

// The clip for one target's outlier statistics.
float ClipOf(const OutlierStatistics& outliers, const Format& format, const Calibration& calibration);

// The magnitudes that become the largest code at this place under the rule's format, granularity and options: one
// value, or one per channel. Throws Error if the set has no statistics of the place.
std::vector<float> StaticClips(const StatisticsSet& set, const Rule& rule, const SiteKey& key);

// ---- The levels at which a law of values loses least: k-means of one dimension, exact, where Lloyd's iteration
// (levels of KVQuant, arXiv 2401.18079, section 3.3) finds a minimum near its start. Of sorted values each level serves
// a run of neighbours, so the best first j values for k levels follow from the best for k - 1 (dynamic programming;
// Bellman, 1973; Wang and Song, Ckmeans.1d.dp, The R Journal 3/2, 2011).

// How often values occur, in bins 1/128 wide from -16 to 16. A value counts as its bin's middle, off by 1/256 at most,
// and one beyond as the last bin's. Sums are whole, so their order does not matter.
class LevelCounts {
 public:
  static constexpr int kBins = 4096;

  void Add(std::span<const float> values, float origin, float inv);  // values: finite
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
