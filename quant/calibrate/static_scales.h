// SPDX-License-Identifier: Apache-2.0
// Static scales of plans from a statistics file: a rule with +static takes its clip from earlier statistics, not from
// the current values. Which calibrator follows from the rule's options: none is min-max, +p99.9 a percentile, +mse the
// least error; entropy goes by its name alone. What shares a scale: tensor (a layer's heads and maps together), head
// (each head and map), channel (min-max only: channels are kept as maxima).
#pragma once

#include <string>
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

// What the statistics file holds for each calibrated format, in this order: minmax p99.9 p99.99 mse entropy.
struct NamedCalibration {
  std::string_view name;
  Calibration calibration;
};
inline constexpr NamedCalibration kCalibrations[] = {{"minmax", {Calibrator::kMinMax}},
                                                     {"p99.9", {Calibrator::kPercentile, 99.9}},
                                                     {"p99.99", {Calibrator::kPercentile, 99.99}},
                                                     {"mse", {Calibrator::kLeastError}},
                                                     {"entropy", {Calibrator::kEntropy}}};

// The clip for one set of outlier statistics.
float ClipOf(const OutlierStatistics& outliers, Format format, const Calibration& calibration);

class StaticScales {
 public:
  explicit StaticScales(const StatisticsSet& set) : set_(set) {}

  // What becomes the largest code there under the rule's format, granularity and options.
  // One value, or one per channel (of a rule with a scale per tensor, head or channel; of channels their largest
  // magnitudes). Throws Error if the file has no statistics of it.
  std::vector<float> Clips(const Rule& rule, const SiteKey& key) const;

  // The same for tensor and head by calibrator.
  float TensorClip(Site site, std::optional<int> layer, Format format, const Calibration& calibration) const;
  float HeadClip(const SiteKey& key, Format format, const Calibration& calibration) const;

 private:
  const StatisticsSet& set_;
};

}  // namespace tare
