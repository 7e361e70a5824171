// SPDX-License-Identifier: Apache-2.0
// Measures of one row of an attention map, or of the difference of two: its spread, the share of the first key, and how
// much of the row a kernel or a cache could skip.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace tare {

// -sum p ln p, in nats; 0 for p = 0. Logarithms in f32: to within 2^-22 of the row's sum of p |ln p|.
double Entropy(std::span<const float> probabilities);

// Sum of -a over the negative entries: the mass that a difference of maps subtracts.
double NegativeMass(std::span<const float> row);

// Entries and blocks of 64 keys whose magnitudes stay below a share of the row's largest; a block counts if all of its
// entries do. Masses are sums of |a|: if the row's |v| is bounded by 1, skipping those entries changes the output by at
// most that.
inline constexpr std::array<double, 3> kSparsityShares = {1e-3, 1e-2, 1e-1};
inline constexpr int64_t kSparsityBlock = 64;

struct Sparsity {
  int64_t blocks = 0;  // of the row, the last one short
  std::array<int64_t, kSparsityShares.size()> entries_under{}, blocks_under{};
  std::array<double, kSparsityShares.size()> entry_mass{}, block_mass{};
};

// Values must be finite.
Sparsity MeasureSparsity(std::span<const float> row);

}  // namespace tare
