// SPDX-License-Identifier: Apache-2.0
#include "experiments/significance/sample_mean.h"

#include <cmath>

#include "experiments/significance/distributions.h"
#include "quant/base/error.h"

namespace tare {

SampleMean MeanOfSamples(std::span<const double> samples) {
  TARE_CHECK(samples.size() >= 2);
  const auto n = static_cast<double>(samples.size());
  SampleMean of;
  for (const double x : samples) of.mean += x / n;
  double squares = 0;
  for (const double x : samples) squares += (x - of.mean) * (x - of.mean);
  of.deviation = std::sqrt(squares / (n - 1));
  const double half = StudentQuantile(0.975, static_cast<int>(n) - 1) * of.deviation / std::sqrt(n);
  of.interval = {of.mean - half, of.mean + half};
  return of;
}

}  // namespace tare
