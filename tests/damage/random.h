// SPDX-License-Identifier: Apache-2.0
// The campaign's random choices, all from one seed.
#pragma once

#include <cstdint>
#include <random>

namespace tare::damage {

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}

  uint64_t Bits() { return engine_(); }
  size_t Below(size_t n) { return n == 0 ? 0 : engine_() % n; }  // n is far below 2^64: the bias does not matter
  bool OneIn(size_t n) { return Below(n) == 0; }
  template <typename Range>
  auto& Of(Range& range) {
    return range[Below(std::size(range))];
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace tare::damage
