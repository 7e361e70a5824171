// SPDX-License-Identifier: Apache-2.0
// A rotation of channels, x -> x R: a randomised Hadamard rotation, or that and a learned one after it (cayley.h), or
// that and a reflection after it, with which R keeps the mean of the channels and so commutes with a LayerNorm:
//
//   R = H (I - 2 w w^T / |w|^2),  w = 1 H - 1     takes the vector of ones, which H makes 1 H, back to itself
#pragma once

#include <cstdint>
#include <vector>

#include "quant/format/hadamard.h"

namespace tare {

class ChannelRotation {
 public:
  // learned: an orthogonal matrix Q [n, n], row-major, of first.size() channels: R = first Q; empty: R = first.
  explicit ChannelRotation(Hadamard first, std::vector<double> learned = {});
  static ChannelRotation KeepingTheMean(Hadamard first);

  int64_t size() const { return first_.size(); }
  // y = x R for a row of size() values, summed in double; y may be x. Thread-safe.
  void Rotate(const float* x, float* y) const;

 private:
  Hadamard first_;
  std::vector<double> learned_;
  std::vector<double> mirror_;  // w sqrt(2) / |w|; empty: no reflection
};

}  // namespace tare
