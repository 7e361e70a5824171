// SPDX-License-Identifier: Apache-2.0
// Seeded random codes and values for tests of quantized matrices, covering every code of a format.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "quant/algorithms/round_to_nearest.h"
#include "quant/format/pack.h"
#include "quant/format/quantized_matrix.h"
#include "tests/support/normal_floats.h"

namespace tare {

inline QuantizedMatrixBuffer RandomQuantized(Format format, int64_t out, int64_t in, int64_t group, unsigned seed) {
  QuantizedMatrixBuffer matrix(format, out, in, group);
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> code(Info(format).min_code, Info(format).max_code);
  std::uniform_real_distribution<float> scale(0.001f, 0.1f);
  std::vector<float> codes(static_cast<size_t>(in));
  for (int64_t n = 0; n < out; ++n) {
    for (float& c : codes) c = static_cast<float>(code(random));
    Pack<float>(format, codes, {matrix.Codes(n), matrix.view().RowBytes()});
    for (int64_t g = 0; g < in / group; ++g) {
      matrix.Scales(n)[g] = g % 3 == 2 ? -scale(random) : scale(random);  // other tools have negative ones
      if (matrix.view().zeros != nullptr) matrix.Zeros(n)[g] = static_cast<uint8_t>(code(random));
      if (matrix.view().minima != nullptr) matrix.Minima(n)[g] = 5.0f - 100 * scale(random);
    }
  }
  return matrix;
}

inline std::vector<float> RandomNormal(size_t count, unsigned seed);

// A matrix of any format: normal values, each group with its largest as the format's largest.
inline QuantizedMatrixBuffer RoundedNormal(Format format, int64_t out, int64_t in, int64_t group, unsigned seed) {
  QuantizedMatrixBuffer matrix(format, out, in, group, 5.0f);
  for (int64_t n = 0; n < out; ++n)
    RoundRowToNearest(RandomNormal(static_cast<size_t>(in), seed + static_cast<unsigned>(n)).data(),
                      ClipChoice::kAbsmax, matrix, n);
  return matrix;
}

inline std::vector<float> RandomNormal(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  NormalFloats normal;
  std::vector<float> values(count);
  for (float& x : values) x = normal(random);
  return values;
}

}  // namespace tare
