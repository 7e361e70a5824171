// SPDX-License-Identifier: Apache-2.0
// What rounding loses of values, by which quantized checkpoints and GGUF files say their relative error.
#pragma once

#include <array>
#include <cstddef>
#include <numeric>
#include <span>

namespace tare {

// Sums of squares of values less rounded, and of values.
struct Squares {
  double error = 0, size = 0;
};

// Both of one length. In lanes of which compilers make vectors; the order of additions is fixed.
inline Squares SquaresOf(std::span<const float> values, std::span<const float> rounded) {
  constexpr size_t kLanes = 8;
  std::array<double, kLanes> error{}, size{};
  const auto add = [&](size_t lane, size_t i) {
    const double value = values[i], off = value - double{rounded[i]};
    error[lane] += off * off;
    size[lane] += value * value;
  };
  const size_t whole = values.size() / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) add(lane, i + lane);
  }
  for (size_t i = whole; i < values.size(); ++i) add(0, i);
  return {std::accumulate(error.begin(), error.end(), 0.0), std::accumulate(size.begin(), size.end(), 0.0)};
}

}  // namespace tare
