// SPDX-License-Identifier: Apache-2.0
#include "quant/algorithms/channel_rotation.h"

#include "quant/base/error.h"

namespace tare {

ChannelRotation::ChannelRotation(Hadamard first, std::vector<double> learned)
    : first_(std::move(first)), learned_(std::move(learned)) {
  TARE_CHECK(learned_.empty() || std::ssize(learned_) == size() * size());
}

void ChannelRotation::Rotate(const float* x, float* y) const {
  first_.Rotate(x, y);
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
