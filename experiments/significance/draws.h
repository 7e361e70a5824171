// SPDX-License-Identifier: Apache-2.0
// Random draws that are the same on every machine: the engine is mt19937_64, whose output the C++ standard defines; the
// distributions are implemented here, because those of the standard differ between libraries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

namespace tare {

class Draws {
 public:
  explicit Draws(uint64_t seed) : random_(seed) {}

  // An index below n, from the high bits of a product with 64 random bits; its bias is below n / 2^64.
  size_t Below(size_t n) { return static_cast<size_t>((static_cast<unsigned __int128>(random_()) * n) >> 64); }

  // Fisher-Yates shuffle, from the last to the first.
  template <typename T>
  void Shuffle(std::vector<T>& values) {
    for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[Below(i)]);
  }

  // k distinct indices below n, in the order drawn.
  std::vector<size_t> Sample(size_t n, size_t k) {
    std::vector<size_t> all(n);
    std::iota(all.begin(), all.end(), size_t{0});
    for (size_t i = 0; i < k; ++i) std::swap(all[i], all[i + Below(n - i)]);
    all.resize(k);
    return all;
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace tare
