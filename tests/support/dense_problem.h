// SPDX-License-Identifier: Apache-2.0
// Linear layers for tests of projectors, with random weights by rows or columns, and their outputs against double sums:
// a sum of `in` products of f32 is off by at most (in + 1) half units of the sum of their magnitudes; with bf16 factors,
// by 2 x 2^-9 more.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/linear/projector.h"
#include "quant/base/float16.h"

namespace tare::dense_problem {

struct Case {
  int64_t rows, out, in;
};
inline constexpr Case kCases[] = {{1, 1, 1},     {1, 7, 5},       {37, 48, 64}, {64, 512, 33}, {65, 513, 128},
                                  {513, 96, 40}, {600, 1030, 24}, {22, 64, 12}, {40, 130, 501}};

struct Problem {
  Problem(const Case& c, WeightType type, unsigned seed)
      : x(PaddedRows(c.rows) * c.in), y(PaddedRows(c.rows) * c.out), bias(c.out), stored(c.out * c.in * 4) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (float& v : x.span()) v = normal(random);
    for (float& v : bias) v = normal(random);
    for (int64_t i = 0; i < c.out * c.in; ++i) {
      const float value = normal(random);
      const uint16_t half = type == WeightType::kBf16 ? Bf16FromFloat(value) : F16FromFloat(value);
      if (type == WeightType::kF32) {
        std::memcpy(stored.data() + 4 * i, &value, 4);
        weights.push_back(value);
      } else {
        std::memcpy(stored.data() + 2 * i, &half, 2);
        weights.push_back(type == WeightType::kBf16 ? FloatFromBf16(half) : FloatFromF16(half));
      }
    }
    weight = {stored.data(), type, c.out, c.in};
  }
  AlignedBuffer<float> x, y;
  std::vector<float> bias;
  AlignedBuffer<char> stored;
  std::vector<float> weights;
  DenseMatrix weight;
};

inline void ExpectRight(const Problem& p, const Case& c, bool has_bias, double extra) {
  for (int64_t r = 0; r < c.rows; ++r) {
    for (int64_t o = 0; o < c.out; ++o) {
      double sum = has_bias ? p.bias[o] : 0.0, size = std::abs(sum);
      for (int64_t i = 0; i < c.in; ++i) {
        const double product = double{p.x[r * c.in + i]} * p.weights[o * c.in + i];
        sum += product;
        size += std::abs(product);
      }
      ASSERT_NEAR(p.y[r * c.out + o], sum, (static_cast<double>(c.in + 2) * 0x1p-24 + extra) * size)
          << "row " << r << " out " << o;
    }
  }
}

// A problem of the same values and double sums as by rows: only the places of the weights in memory differ.
inline Problem ByColumns(const Case& c, WeightType type) {
  Problem p(c, type, 1);
  const size_t bytes = type == WeightType::kF32 ? 4 : 2;
  const std::vector<char> rows(p.stored.data(), p.stored.data() + p.stored.size());
  for (int64_t o = 0; o < c.out; ++o) {
    for (int64_t i = 0; i < c.in; ++i)
      std::memcpy(p.stored.data() + (i * c.out + o) * bytes, rows.data() + (o * c.in + i) * bytes, bytes);
  }
  p.weight.order = WeightOrder::kColumns;
  return p;
}

}  // namespace tare::dense_problem
