// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/learned_rotation.h"

#include "quant/algorithms/cayley.h"

namespace tare {
namespace {

// Of 0.03, 0.1, 0.3 and 1 the one after which the embedded standard model loses least, in int4 in groups.
constexpr double kFirstAngle = 0.3;

}  // namespace

LearnedRotation LearnRotation(RotatedError& error, int steps, const Progress& progress) {
  const int64_t n = error.channels();
  std::vector<double> q(static_cast<size_t>(n * n), 0.0), gradient;
  for (int64_t i = 0; i < n; ++i) q[static_cast<size_t>(i * n + i)] = 1;
  LearnedRotation learned{.q = q};
  for (int step = 0; step <= steps; ++step) {
    const double now = error.At(q, gradient);
    if (step == 0) learned.first = learned.least = now;
    if (now < learned.least) {
      learned.least = now;
      learned.q = q;
    }
    Report(progress, step, steps, "steps");
    if (step == steps) break;
    CayleyStep(n, gradient, kFirstAngle * (1 - static_cast<double>(step) / steps), q);
  }
  return learned;
}

}  // namespace tare
