// SPDX-License-Identifier: Apache-2.0
// Gradients of products y = x W^T of f32 matrices, on oneDNN's sgemm, which reads transposed factors where they lie:
//
//   dW += dy^T x      dx = dy W
//
//   x [rows, in], W [out, in], y [rows, out], row-major
//
// The work is cut into blocks whose size hangs on the shapes alone, each a product on one thread: results do not depend
// on the number of threads. A call allocates a description of its blocks.
#pragma once

#include <cstdint>
#include <span>

namespace tare {

struct ProductGradient {
  const float* dy;
  const float* x;
  const float* weight;
  int64_t out, in;
  float* d_weight = nullptr;  // added to; null: not asked for
  float* dx = nullptr;        // null: not asked for
};

// All of as many rows; no output may overlap another or an input.
void AddProductGradients(std::span<const ProductGradient> products, int64_t rows);

}  // namespace tare
