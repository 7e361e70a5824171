// SPDX-License-Identifier: Apache-2.0
// The mean of a few independent samples, such as models trained from other seeds or calibrated on other texts:
//
//   mean m = sum x_i / n,   deviation s = sqrt(sum (x_i - m)^2 / (n - 1)),   95 % of the mean: m -/+ t s / sqrt(n)
//
// with t of Student's distribution, n - 1 degrees of freedom. s already contains each sample's own error.
#pragma once

#include <span>

#include "experiments/significance/accuracy.h"

namespace tare {

struct SampleMean {
  double mean = 0, deviation = 0;
  Interval interval;
};

// Of two samples or more.
SampleMean MeanOfSamples(std::span<const double> samples);

}  // namespace tare
