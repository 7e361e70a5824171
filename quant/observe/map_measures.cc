// SPDX-License-Identifier: Apache-2.0
#include "quant/observe/map_measures.h"

#include <algorithm>
#include <cmath>

namespace tare {
namespace {

float Largest(std::span<const float> values) {
  float largest = 0.0f;
  for (const float v : values) {
    const float magnitude = std::fabs(v);
    largest = magnitude > largest ? magnitude : largest;
  }
  return largest;
}

struct Under {
  int32_t entries = 0;
  double mass = 0.0;
};

// At most kSparsityBlock values: their magnitudes add in f32 to within 64 * 2^-24.
Under CountUnder(std::span<const float> block, float threshold) {
  Under under;
  float mass = 0.0f;
  for (const float v : block) {
    const float magnitude = std::fabs(v);
    under.entries += magnitude < threshold ? 1 : 0;
    mass += magnitude < threshold ? magnitude : 0.0f;
  }
  under.mass = mass;
  return under;
}

}  // namespace

double Entropy(std::span<const float> probabilities) {
  double sum = 0.0;
  for (const float p : probabilities) {
    if (p > 0.0f) sum -= static_cast<double>(p) * std::log(p);
  }
  return sum;
}

double NegativeMass(std::span<const float> row) {
  double sum = 0.0;
  for (const float v : row) sum += v < 0.0f ? -static_cast<double>(v) : 0.0;
  return sum;
}

Sparsity MeasureSparsity(std::span<const float> row) {
  Sparsity sparsity;
  const float largest = Largest(row);
  for (; !row.empty(); row = row.subspan(std::min<size_t>(row.size(), kSparsityBlock))) {
    const std::span<const float> block = row.first(std::min<size_t>(row.size(), kSparsityBlock));
    const float block_largest = Largest(block);
    ++sparsity.blocks;
    for (size_t i = 0; i < kSparsityShares.size(); ++i) {
      const auto threshold = static_cast<float>(kSparsityShares[i] * largest);
      const Under under = CountUnder(block, threshold);
      sparsity.entries_under[i] += under.entries;
      sparsity.entry_mass[i] += under.mass;
      if (block_largest < threshold) {
        ++sparsity.blocks_under[i];
        sparsity.block_mass[i] += under.mass;
      }
    }
  }
  return sparsity;
}

}  // namespace tare
