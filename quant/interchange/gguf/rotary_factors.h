// SPDX-License-Identifier: Apache-2.0
// llama3's scaling of rotary frequencies, found again from what llama.cpp's converter made of it: the tensor
// rope_freqs.weight divides frequency theta^(-2i/d) by f_i. With a wave of w_i tokens,
//
//   s_i = (original / w_i - low) / (high - low)
//   f_i = 1 where w_i < original / high;  factor where w_i > original / low;  else 1 / ((1 - s_i) / factor + s_i)
#pragma once

#include <optional>
#include <span>

namespace tare::gguf {

struct RotaryFactors {
  double factor = 1, low = 1, high = 4, original = 8192;
};

// nullopt if no such numbers make these divisors (to 1e-5 of each). `low` is 1: only quotients count.
std::optional<RotaryFactors> FindRotaryFactors(std::span<const float> divisors, double theta);

}  // namespace tare::gguf
