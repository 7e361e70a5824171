// SPDX-License-Identifier: Apache-2.0
#include "quant/algorithms/channel_rotation.h"

#include <cmath>
#include <numeric>

#include "quant/base/error.h"

namespace tare {

ChannelRotation::ChannelRotation(Hadamard first, std::vector<double> learned)
    : first_(std::move(first)), learned_(std::move(learned)) {
  TARE_CHECK(learned_.empty() || std::ssize(learned_) == size() * size());
}

ChannelRotation ChannelRotation::KeepingTheMean(Hadamard first) {
  ChannelRotation rotation(std::move(first));
  std::vector<float> ones(static_cast<size_t>(rotation.size()), 1.0f);
  rotation.first_.Rotate(ones.data(), ones.data());
  std::vector<double> w;
  for (const float x : ones) w.push_back(double{x} - 1);
  const double square = std::inner_product(w.begin(), w.end(), w.begin(), 0.0);
  if (square == 0) return rotation;  // it keeps them itself
  for (double& x : w) x *= std::sqrt(2 / square);
  rotation.mirror_ = std::move(w);
  return rotation;
}

void ChannelRotation::Rotate(const float* x, float* y) const {
  first_.Rotate(x, y);
  if (!mirror_.empty()) {
    const double along = std::inner_product(mirror_.begin(), mirror_.end(), y, 0.0);
    for (int64_t i = 0; i < size(); ++i) y[i] = static_cast<float>(y[i] - along * mirror_[static_cast<size_t>(i)]);
  }
  if (learned_.empty()) return;
  thread_local std::vector<double> sums;
  sums.assign(static_cast<size_t>(size()), 0.0);
  for (int64_t i = 0; i < size(); ++i) {
    const double value = y[i];
    const double* const row = learned_.data() + i * size();
    for (int64_t j = 0; j < size(); ++j) sums[static_cast<size_t>(j)] += value * row[j];
  }
  for (int64_t j = 0; j < size(); ++j) y[j] = static_cast<float>(sums[static_cast<size_t>(j)]);
}

}  // namespace tare
