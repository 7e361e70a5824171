// SPDX-License-Identifier: Apache-2.0
// Runs a loop as compiled for the widest vectors of this processor, where the program as a whole is compiled for any
// x86-64. Compilers find the vectors themselves and contract nothing (cmake/flags.cmake): results are the same bits.
//
//   InWidestVectors([&]() TARE_INTO_CALLER { for (int i = 0; i < n; ++i) y[i] = std::max(x[i], 0.0f); });
//
// Calls in the loop must be inlined too. A loop that is a template of an integer gets a vector's bytes: 64, 32 or 16.
#pragma once

#define TARE_INTO_CALLER __attribute__((always_inline))

namespace tare {

template <int kBytes, typename Body>
TARE_INTO_CALLER inline void InVectors(const Body& body) {
  if constexpr (requires { body.template operator()<kBytes>(); }) {
    body.template operator()<kBytes>();
  } else {
    body();
  }
}
#ifdef __x86_64__
template <typename Body>
[[gnu::target("avx512f")]] void InAvx512(const Body& body) {
  InVectors<64>(body);
}
template <typename Body>
[[gnu::target("avx2")]] void InAvx2(const Body& body) {
  InVectors<32>(body);
}
#endif

template <typename Body>
void InWidestVectors(const Body& body) {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f")) return InAvx512(body);
  if (__builtin_cpu_supports("avx2")) return InAvx2(body);
#endif
  InVectors<16>(body);
}

}  // namespace tare
