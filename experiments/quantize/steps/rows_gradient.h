// SPDX-License-Identifier: Apache-2.0
// Gradients of elementwise steps (kernels/elementwise/rows.h), each on one contiguous row of n values; sums in double.
#pragma once

#include <cstddef>

namespace tare {

// Of y = x r weight, r = 1 / sqrt(mean(x^2) + eps), by x, from dy: dx = r (weight dy) - x r^3 mean(x weight dy).
// weight null: ones. dx may be dy.
void RmsNormGradient(const float* x, const float* weight, float eps, const float* dy, size_t n, float* dx);

// Of y = silu(gate) up, from dy: with s = sigmoid(gate),
//   dgate = dy up s (1 + gate (1 - s)),   dup = dy gate s
// dgate and dup may be none of the inputs.
void SwiGluGradient(const float* gate, const float* up, const float* dy, size_t n, float* dgate, float* dup);

}  // namespace tare
