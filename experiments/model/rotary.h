// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding: angle(position, i) = position * frequency_i, frequency_i = theta^(-2i/d), changed by the
// checkpoint's scaling (linear: all divided by the factor; llama3, yarn: low ones divided, high ones kept, a ramp
// between; yarn scales cosines and sines by its attention factor). Computed in f32 in the order of transformers'
// modeling_rope_utils, because rounding matters at distant positions.
#pragma once

#include <vector>

#include "experiments/model/config.h"

namespace tare {

// Returns d/2 frequencies.
std::vector<float> RotaryFrequencies(const RotaryConfig& config, int head_dim);

// Cosines and sines of positions [0, size), d/2 per row; grows on demand.
class RotaryTable {
 public:
  RotaryTable(const RotaryConfig& config, int head_dim)
      : frequencies_(RotaryFrequencies(config, head_dim)), factor_(static_cast<float>(config.attention_factor)) {}

  void Reserve(int64_t positions);
  const float* Cosine(int64_t position) const { return cosine_.data() + position * Half(); }
  const float* Sine(int64_t position) const { return sine_.data() + position * Half(); }

 private:
  int64_t Half() const { return static_cast<int64_t>(frequencies_.size()); }

  std::vector<float> frequencies_;
  float factor_;
  std::vector<float> cosine_, sine_;
};

}  // namespace tare
