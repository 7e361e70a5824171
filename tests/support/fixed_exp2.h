// SPDX-License-Identifier: Apache-2.0
// The scalar that vectors of 16-bit exponentials are held to (kernels/attention/exponentials.h).
#pragma once

#include <cstdint>

#include "kernels/attention/exponentials.h"

namespace tare {

inline int FixedExp2(int u) {
  const auto high = [](uint32_t a, uint32_t b) { return a * b >> 16; };
  const uint32_t f = static_cast<uint32_t>(u) << 5 & 0xffff;
  const uint32_t p = kExpLargest - high(f, kExpC1 - high(f, kExpC2 - high(f, kExpC3)));
  return static_cast<int>(p >> (u >> 11));
}

}  // namespace tare
