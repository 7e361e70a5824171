// SPDX-License-Identifier: Apache-2.0
#include "kernels/cache/key_rotary.h"

#include <cmath>

namespace tare {

void KeyRotary::TurnBy(float* key, float position) const {
  const size_t half = frequencies_.size();
  for (size_t i = 0; i < half; ++i) {
    float& a = key[pairs_ == RotaryPairs::kHalves ? i : 2 * i];
    float& b = key[pairs_ == RotaryPairs::kHalves ? i + half : 2 * i + 1];
    const float angle = position * frequencies_[i], cosine = std::cos(angle), sine = std::sin(angle);
    const float turned = a * cosine - b * sine;
    b = b * cosine + a * sine;
    a = turned;
  }
}

}  // namespace tare
