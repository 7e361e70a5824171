// SPDX-License-Identifier: Apache-2.0
// GPTQ of one matrix on correlated inputs, beside rounding to nearest.
#include <algorithm>
#include <cstdio>

#include <tare/quant/algorithms/gptq.h>
#include <tare/quant/algorithms/round_to_nearest.h>
#include "random_tensor.h"

constexpr int64_t kOut = 64, kIn = 128, kTokens = 512, kGroup = 64;

int main() {
  const std::vector<float> w = RandomTensor(kOut * kIn), shared = RandomTensor(kTokens * 8),
                           mix = RandomTensor(8 * kIn);
  std::vector<float> x = RandomTensor(kTokens * kIn), hessian(kIn * kIn);
  for (int64_t t = 0; t < kTokens; ++t)
    for (int64_t i = 0; i < kIn; ++i)
      for (int64_t j = 0; j < 8; ++j) x[t * kIn + i] += shared[t * 8 + j] * mix[j * kIn + i];
  for (int64_t t = 0; t < kTokens; ++t)
    for (int64_t i = 0; i < kIn; ++i)
      for (int64_t j = 0; j < kIn; ++j) hessian[i * kIn + j] += x[t * kIn + i] * x[t * kIn + j];

  const tare::Format format = tare::Format::kInt4;
  tare::QuantizedMatrixBuffer gptq(format, kOut, kIn, kGroup), nearest(format, kOut, kIn, kGroup);
  const tare::ReadRow read = [&](int64_t row, float* values) { std::copy_n(w.data() + row * kIn, kIn, values); };
  tare::GptqFactor(hessian, kIn, tare::kGptqDamping, "my layer")
      .Round(read, tare::EndsBy(tare::ClipChoice::kAbsmax, format), gptq);
  for (int64_t row = 0; row < kOut; ++row)
    tare::RoundRowToNearest(w.data() + row * kIn, tare::ClipChoice::kAbsmax, nearest, row);

  const auto error = [&](const tare::QuantizedMatrixBuffer& matrix) {
    std::vector<float> values(w.size());
    for (int64_t row = 0; row < kOut; ++row) tare::DequantizeRow(matrix.view(), row, values.data() + row * kIn);
    return RelativeError(Project(x, values, kIn), Project(x, w, kIn));
  };
  std::printf("outputs are %.1f %% off rounded to nearest, %.1f %% by GPTQ\n", 100 * error(nearest), 100 * error(gptq));
  return error(gptq) < error(nearest) ? 0 : 1;
}
