// SPDX-License-Identifier: Apache-2.0
// A rotation of channels, x -> x R: a randomised Hadamard rotation, or that and a learned one after it (cayley.h).
#pragma once

#include <cstdint>
#include <vector>

#include "quant/format/hadamard.h"

namespace tare {

class ChannelRotation {
 public:
  // learned: an orthogonal matrix Q [n, n], row-major, of first.size() channels: R = first Q; empty: R = first.
  explicit ChannelRotation(Hadamard first, std::vector<double> learned = {});

  int64_t size() const { return first_.size(); }
  // y = x R for a row of size() values, summed in double; y may be x. Thread-safe.
  void Rotate(const float* x, float* y) const;

 private:
  Hadamard first_;
  std::vector<double> learned_;
};

}  // namespace tare
