// SPDX-License-Identifier: Apache-2.0
// Static scales of plans, from a statistics file: a rule with +static takes its clip from earlier statistics, not from
// the current values. The rule's options choose the calibrator: none is min-max, +p99.9 a percentile, +mse the least
// error; entropy is chosen by name only. Scales are per tensor (a layer's heads and maps together), head (each head and
// map) or channel (min-max only: of channels only maxima are kept).
#pragma once

#include <string_view>
#include <vector>

#include "quant/observe/statistics_set.h"
#include "quant/plan/plan.h"

namespace tare {

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
float ClipOf(const OutlierStatistics& outliers, Format format, const Calibration& calibration);

class StaticScales {
 public:
  explicit StaticScales(const StatisticsSet& set) : set_(set) {}

  // The magnitudes that become the largest code at this place under the rule's format, granularity and options: one
  // value, or one per channel. Throws Error if the file has no statistics of the place.
  std::vector<float> Clips(const Rule& rule, const SiteKey& key) const;

  // The same for a whole tensor, by calibrator.
  float TensorClip(Site site, std::optional<int> layer, Format format, const Calibration& calibration) const;
  float HeadClip(const SiteKey& key, Format format, const Calibration& calibration) const;

 private:
  const StatisticsSet& set_;
};

}  // namespace tare
