// SPDX-License-Identifier: Apache-2.0
// The weight W [out, in] of a linear layer y = x W^T, to read and to change, and its gradient: dW += dy^T x, dx = dy W.
#pragma once

#include <cstdint>

#include "kernels/linear/projector.h"
#include "quant/base/aligned.h"

namespace tare {

// Memory for products, shared by the linear layers of a model's layer.
struct LinearGradientMemory {
  Projector projector{Math::kF32};
  AlignedBuffer<float> outputs, inputs, product;  // dy^T [out, rows], x^T [in, rows], dy^T x, with padding
  AlignedBuffer<float> weight;                    // W^T [in, out], of the layer at work
};

class LinearGradient {
 public:
  // A copy of the weight in f32, and a gradient of zeros.
  explicit LinearGradient(const WeightMatrix& stored);

  float* weight() { return weight_.data(); }
  const float* gradient() const { return gradient_.data(); }
  WeightMatrix Matrix() const { return {.data = weight_.data(), .type = WeightType::kF32, .out = out_, .in = in_}; }
  void Clear();

  // From dy [PaddedRows(rows), out] and x [rows, in]; dx [PaddedRows(rows), in], or null: not asked for. Rows of dy
  // beyond `rows` must be finite.
  void Add(const float* dy, const float* x, int64_t rows, float* dx, LinearGradientMemory& memory);

 private:
  int64_t out_, in_;
  AlignedBuffer<float> weight_, gradient_;  // [out, in]
};

}  // namespace tare
