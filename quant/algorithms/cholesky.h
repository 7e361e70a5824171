// SPDX-License-Identifier: Apache-2.0
// The Cholesky factor of a large matrix and its inverse, in place: tiles in f32, sums in double. Uses all threads; the
// result is bit-equal on any number of threads and any instruction set, because the order of additions is fixed.
//
// A matrix of 8,192 inputs takes 2 n^3 / 3 products; a second matrix in f64 would take as much memory as the layer's
// weights.
// weights.
#pragma once

#include <cstdint>

namespace tare {

// a [n, n], row-major, only the lower triangle is read: A = L L^T. Writes L into it and leaves the rest. Returns false
// if a pivot is not positive or not finite; the contents of a are then undefined.
bool FactorInPlace(int64_t n, float* a);

// lower [n, n]: replaces L, whose diagonal must not be 0, by L^-1 and leaves the rest.
void InvertInPlace(int64_t n, float* lower);

// c [rows, n] becomes c A^-1, with inverse = L^-1 [n, n].
void MultiplyByInverse(int64_t n, const float* inverse, int64_t rows, float* c);

}  // namespace tare
