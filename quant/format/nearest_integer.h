// SPDX-License-Identifier: Apache-2.0
// std::nearbyint for loops that compilers are to vectorize: the oldest x86-64 has no instruction for it.
#pragma once

namespace tare {

// Ties to even, for |x| <= 2^22; for larger ones a number near x.
inline float NearestInteger(float x) {
  constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23: at this size f32 has whole numbers alone
  return (x + kMagic) - kMagic;
}

}  // namespace tare
