// SPDX-License-Identifier: Apache-2.0
// Draws that are the same on every machine: C++'s mt19937_64, and our own distributions, as those of libraries differ.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <ranges>
#include <utility>
#include <vector>

namespace tare {

// 0 to n - 1.
inline std::vector<size_t> AllBelow(size_t n) {
  return std::views::iota(size_t{0}, n) | std::ranges::to<std::vector>();
}

// SplitMix64's number after this state (Steele, Lea, Flood 2014).
inline uint64_t SplitMix64(uint64_t z) {
  z += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

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
    std::vector<size_t> all = AllBelow(n);
    for (size_t i = 0; i < k; ++i) std::swap(all[i], all[i + Below(n - i)]);
    all.resize(k);
    return all;
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace tare
