// SPDX-License-Identifier: Apache-2.0
#include "quant/observe/map_measures.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "quant/observe/lanes.h"

namespace tare {
namespace {

using Words = uint32_t __attribute__((vector_size(kLanes * sizeof(uint32_t))));

// body(four) for every four values, the last ones filled up with zeros.
template <typename Body>
void ForFours(std::span<const float> values, Body body) {
  size_t i = 0;
  Floats four;
  for (; i + kLanes <= values.size(); i += kLanes) {
    std::memcpy(&four, &values[i], sizeof four);
    body(four);
  }
  if (i == values.size()) return;
  four = Floats{};
  std::memcpy(&four, &values[i], (values.size() - i) * sizeof(float));
  body(four);
}

float Largest(std::span<const float> values) {
  Floats largest{};
  ForFours(values, [&](const Floats& v) {
    const Floats magnitude = Magnitudes(v);
    largest = magnitude > largest ? magnitude : largest;
  });
  float all = 0.0f;
  for (size_t lane = 0; lane < kLanes; ++lane) all = std::max(all, largest[lane]);
  return all;
}

// ln x of normal x > 0 to within 2 ulp: Moshier's polynomial (cephes, logf.c) of the mantissa in [sqrt(1/2), sqrt(2)).
Floats Logarithm(const Floats& x) {
  constexpr int32_t kHalfRoot = 0x3f3504f3;  // bits of sqrt(1/2)
  // Of a negative x, which captured maps may have, any value.
  const Ints shifted = std::bit_cast<Ints>(std::bit_cast<Words>(x) - uint32_t{kHalfRoot});
  const Ints exponent = shifted >> 23;
  const Floats m = std::bit_cast<Floats>((shifted & 0x7fffff) + kHalfRoot) - 1.0f;
  const Floats e = __builtin_convertvector(exponent, Floats);
  Floats y = m * 7.0376836292e-2f - 1.1514610310e-1f;
  for (const float c : {1.1676998740e-1f, -1.2420140846e-1f, 1.4249322787e-1f, -1.6668057665e-1f, 2.0000714765e-1f,
                        -2.4999993993e-1f, 3.3333331174e-1f}) {
    y = y * m + c;
  }
  const Floats square = m * m;
  y = y * m * square - e * 2.12194440e-4f - square * 0.5f;
  return m + y + e * 0.693359375f;
}

struct Under {
  int32_t entries = 0;
  double mass = 0.0;
};

// At most kSparsityBlock values: sixteen of a lane add in f32, to within 16 * 2^-24.
Under CountUnder(std::span<const float> block, float threshold) {
  Ints entries{};
  Floats mass{};
  ForFours(block, [&](const Floats& v) {
    const Floats magnitude = Magnitudes(v);
    const Ints under = magnitude < threshold;
    entries -= under;
    mass += std::bit_cast<Floats>(std::bit_cast<Ints>(magnitude) & under);
  });
  const auto filled = static_cast<int32_t>((kLanes - block.size() % kLanes) % kLanes);
  return {Sum(entries) - (threshold > 0.0f ? filled : 0), Sum(mass)};
}

}  // namespace

double Entropy(std::span<const float> probabilities) {
  Doubles sum{};
  ForFours(probabilities, [&](const Floats& p) {
    const Ints normal = p >= std::numeric_limits<float>::min();  // below, p ln p is under 1e-36
    const Floats term = p * Logarithm(p);
    sum -= __builtin_convertvector(std::bit_cast<Floats>(std::bit_cast<Ints>(term) & normal), Doubles);
  });
  return Sum(sum);
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
