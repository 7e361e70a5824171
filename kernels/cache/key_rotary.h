// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding of one key (arXiv 2104.09864): channel pairs rotated by position times their frequency,
// forward and back. Pairs are (i, i + width / 2), or neighbours (2i, 2i + 1).
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace tare {

enum class RotaryPairs { kHalves, kNeighbours };

class KeyRotary {
 public:
  // frequencies [width / 2], radians per position.
  KeyRotary(std::vector<float> frequencies, RotaryPairs pairs) : frequencies_(std::move(frequencies)), pairs_(pairs) {}

  int width() const { return 2 * static_cast<int>(frequencies_.size()); }
  // key [width], in place.
  void Turn(float* key, int64_t position) const { TurnBy(key, static_cast<float>(position)); }
  void TurnBack(float* key, int64_t position) const { TurnBy(key, -static_cast<float>(position)); }

 private:
  void TurnBy(float* key, float position) const;

  std::vector<float> frequencies_;
  RotaryPairs pairs_;
};

}  // namespace tare
