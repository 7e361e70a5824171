// SPDX-License-Identifier: Apache-2.0
// Four values at once. The compiler maps them to vector registers; the order of additions is the same everywhere.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace tare {

// Four floats (128 bits) are a vector type on every 64-bit machine, so functions may return them; five sums of four
// doubles fit the registers of any x86-64.
inline constexpr size_t kLanes = 4;
using Floats = float __attribute__((vector_size(kLanes * sizeof(float))));
using Ints = int32_t __attribute__((vector_size(kLanes * sizeof(int32_t))));
using Doubles = double __attribute__((vector_size(kLanes * sizeof(double))));

[[gnu::always_inline]] inline Floats Magnitudes(const Floats& v) {
  return std::bit_cast<Floats>(std::bit_cast<Ints>(v) & INT32_MAX);
}

// Always in this order: (first + third) + (second + fourth).
template <typename Vector>
auto Sum(const Vector& v) {
  return (v[0] + v[2]) + (v[1] + v[3]);
}

}  // namespace tare
