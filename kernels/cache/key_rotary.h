// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding of one key (arXiv 2104.09864): pairs of its first r channels rotated by position times
// their frequency, forward and back. Pairs are (i, i + r / 2), or neighbours (2i, 2i + 1).
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace tare {

enum class RotaryPairs { kHalves, kNeighbours };

class KeyRotary {
 public:
  // frequencies [r / 2], radians per position. width: channels of a key; r if it is not given.
  KeyRotary(std::vector<float> frequencies, RotaryPairs pairs, std::optional<int> width = {})
      : frequencies_(std::move(frequencies)),
        pairs_(pairs),
        width_(width.value_or(2 * static_cast<int>(frequencies_.size()))) {}

  int width() const { return width_; }
  // key [width], in place.
  void Turn(float* key, int64_t position) const { TurnBy(key, static_cast<float>(position)); }
  void TurnBack(float* key, int64_t position) const { TurnBy(key, -static_cast<float>(position)); }

 private:
  void TurnBy(float* key, float position) const {
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

  std::vector<float> frequencies_;
  RotaryPairs pairs_;
  int width_;
};

}  // namespace tare
