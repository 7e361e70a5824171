// SPDX-License-Identifier: Apache-2.0
// A linear layer, y = x W^T: INT4 weights in groups of 64, rounded once and packed, with INT8 activations.
#include <cstdio>

#include <tare/kernels/linear/packed_matrix.h>
#include <tare/kernels/linear/quantized_linear.h>
#include <tare/quant/algorithms/round_to_nearest.h>
#include "random_tensor.h"

int main() {
  constexpr int64_t kRows = 8, kIn = 512, kOut = 256, kGroup = 64;
  const std::vector<float> w = RandomTensor(kOut * kIn), x = RandomTensor(kRows * kIn);
  tare::QuantizedMatrixBuffer matrix(tare::Format::kInt4, kOut, kIn, kGroup);
  for (int64_t row = 0; row < kOut; ++row)
    tare::RoundRowToNearest(w.data() + row * kIn, tare::ClipChoice::kLeastSquares, matrix, row);
  const tare::PackedMatrix packed(matrix.view());

  std::vector<float> y(kRows * kOut);
  const tare::QuantizedProjection projection{.weight = &packed, .y = y.data()};
  tare::QuantizedLinear().Project(x.data(), kRows, {.format = tare::Format::kInt8}, {&projection, 1});

  const double error = RelativeError(y, Project(x, w, kIn));
  std::printf("%zu bytes of weights where f32 has %zu; W4A8 is %.1f %% from f32\n", packed.Bytes(),
              w.size() * sizeof(float), 100 * error);
  return error < 0.15 ? 0 : 1;
}
