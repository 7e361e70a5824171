// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/learned_rotation.h"

#include "quant/algorithms/cayley.h"

namespace tare {
namespace {

// Of 0.03, 0.1, 0.3 and 1 the one after which the embedded standard model loses least, in int4 in groups: tried for the
// stream alone.
constexpr double kFirstAngle = 0.3;

std::vector<double> Identity(int64_t n) {
  std::vector<double> q(static_cast<size_t>(n * n), 0.0);
  for (int64_t i = 0; i < n; ++i) q[static_cast<size_t>(i * n + i)] = 1;
  return q;
}

}  // namespace

LearnedRotation LearnRotation(RotatedError& error, int steps, const Progress& progress) {
  std::vector<std::vector<double>> rotations, gradients;
  for (const int64_t size : error.sizes()) rotations.push_back(Identity(size));
  LearnedRotation learned{.rotations = rotations};
  for (int step = 0; step <= steps; ++step) {
    const double now = error.At(rotations, gradients);
    if (step == 0) learned.first = learned.least = now;
    if (now < learned.least) {
      learned.least = now;
      learned.rotations = rotations;
    }
    Report(progress, step, steps, "steps");
    if (step == steps) break;
    const double angle = kFirstAngle * (1 - static_cast<double>(step) / steps);
    for (size_t i = 0; i < rotations.size(); ++i) CayleyStep(error.sizes()[i], gradients[i], angle, rotations[i]);
  }
  return learned;
}

}  // namespace tare
