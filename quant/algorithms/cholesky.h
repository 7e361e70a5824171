// SPDX-License-Identifier: Apache-2.0
// The Cholesky factor of a large matrix and its inverse, in place: f32 between tiles, sums in double. On all threads,
// and the same bits on any number of them and on any instruction set: every element has one order of additions.
//
// A matrix of 8,192 inputs takes 2 n^3 / 3 products; one of f64 beside it would take as much memory as the layer's
// weights.
#pragma once

#include <cstdint>

namespace tare {

// a [n, n], row-major, of which the lower triangle is read: A = L L^T. Leaves L there, and the rest as it was. False
// where a pivot is not positive or not finite; a is spoilt then.
bool FactorInPlace(int64_t n, float* a);

// lower [n, n]: L, its diagonal not 0, becomes L^-1; the rest is left as it was.
void InvertInPlace(int64_t n, float* lower);

// c [rows, n] becomes c A^-1, inverse being L^-1 [n, n].
void MultiplyByInverse(int64_t n, const float* inverse, int64_t rows, float* c);

}  // namespace tare
