// SPDX-License-Identifier: Apache-2.0
// Measures of one row of an attention map, or of the difference of two: its spread, the share of the first key, and how
// much of it a kernel or a cache could skip.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace tare {

// -sum p ln p, in nats; 0 for p = 0. Logarithms in f32: to within 2^-22 of the row's sum of p |ln p|.
double Entropy(std::span<const float> probabilities);

// Sum of -a over the negative entries: what a difference of maps takes away.
double NegativeMass(std::span<const float> row);

// Entries and blocks of 64 keys whose magnitude stays below a share of the row's largest. A block is below where all of
// its entries are. Masses are of |a|: the row's |v| bounded by 1, the output's error if they were skipped is at most
// that.
inline constexpr std::array<double, 3> kSparsityShares = {1e-3, 1e-2, 1e-1};
inline constexpr int64_t kSparsityBlock = 64;

struct Sparsity {
  int64_t blocks = 0;  // of the row, the last one short
  std::array<int64_t, kSparsityShares.size()> entries_under{}, blocks_under{};
  std::array<double, kSparsityShares.size()> entry_mass{}, block_mass{};
};

// Finite values.
Sparsity MeasureSparsity(std::span<const float> row);

}  // namespace tare
