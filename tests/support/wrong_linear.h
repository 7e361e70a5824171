// SPDX-License-Identifier: Apache-2.0
// What is wrong with a row of outputs of the integer linear kernels, in all outputs: "" or the first that differs from
// the scalar reference by more than f32's rounding. bias: [out], or null.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/linear/one_token.h"
#include "kernels/linear/quantized_linear.h"
#include "quant/format/round.h"
#include "tests/support/wrong.h"

namespace tare {

// QuantizedLinear with activations in int8. A group's sum is rounded to f32, multiplied and added, the total
// multiplied and biased: groups + 4 roundings.
inline std::string WrongLinear(const float* x, const QuantizedMatrix& w, const float* bias, const float* y) {
  const LinearReference reference = ReferenceLinear(x, 1, Format::kInt8, w, bias);
  const int64_t groups = w.Groups();
  const double largest = AbsMax({x, static_cast<size_t>(w.in)});
  std::string wrong;
  for (int64_t n = 0; n < w.out && wrong.empty(); ++n) {
    double size = bias == nullptr ? 0.0 : std::abs(double{bias[n]});
    for (int64_t g = 0; g < groups; ++g)
      size += std::abs(static_cast<double>(reference.sums[n * groups + g]) * double{w.ScaleOf(n, g)}) * largest / 127;
    wrong = WrongValue("output", n, y[n], reference.y[n], static_cast<double>(groups + 4) * 0x1p-24 * size);
  }
  return wrong;
}

// OneToken. x is off by half a unit of 1 / 16256 of its block's largest magnitude, and a hair for the rounding of
// x * inv; (blocks + 6) roundings of f32.
inline std::string WrongToken(const float* x, const QuantizedMatrix& w, const PackedMatrix& packed, const float* bias,
                              const float* y) {
  const int64_t block = OneToken::BlockOf(packed);
  const double roundings = static_cast<double>(CeilDiv(w.in, block) + 6) * 0x1p-24;
  std::vector<float> row(static_cast<size_t>(w.in)), largest;
  for (int64_t begin = 0; begin < w.in; begin += block)
    largest.push_back(AbsMax({x + begin, static_cast<size_t>(std::min(block, w.in - begin))}));
  std::string wrong;
  for (int64_t n = 0; n < w.out && wrong.empty(); ++n) {
    DequantizeRow(w, n, row.data());
    double sum = bias == nullptr ? 0.0 : bias[n], size = std::abs(sum), bound = 0;
    for (int64_t i = 0; i < w.in; ++i) {
      bound += std::abs(double{row[i]}) * largest[i / block] / OneToken::kLargestCode;
      sum += double{row[i]} * x[i];
      size += std::abs(double{row[i]} * x[i]);
    }
    wrong = WrongValue("output", n, y[n], sum, 0.502 * bound + roundings * (size + bound));
  }
  return wrong;
}

}  // namespace tare
