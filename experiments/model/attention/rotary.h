// SPDX-License-Identifier: Apache-2.0
// Cosines and sines of rotary positions, by the frequencies of rotary_scaling.h.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "experiments/model/config/config.h"
#include "experiments/model/config/rotary_scaling.h"
#include "kernels/cache/key_rotary.h"

namespace tare {

// Of positions [0, size), r/2 per row; grows on demand.
class RotaryTable {
 public:
  RotaryTable(const RotaryConfig& rotary, int head_dim);

  // Channels of a head that rotate, its first ones: r.
  int channels() const { return 2 * static_cast<int>(angles_.Half()); }
  void Reserve(int64_t positions);
  // In a sequence of so many tokens.
  const float* Cosine(int64_t position, int64_t tokens = 1) const {
    return For(tokens).At(For(tokens).cosine, position);
  }
  const float* Sine(int64_t position, int64_t tokens = 1) const { return For(tokens).At(For(tokens).sine, position); }

 private:
  struct Angles {
    std::vector<float> frequencies, cosine, sine;
    int64_t Half() const { return static_cast<int64_t>(frequencies.size()); }
    const float* At(const std::vector<float>& rows, int64_t position) const { return rows.data() + position * Half(); }
    void Reserve(int64_t positions, float factor);
  };
  const Angles& For(int64_t tokens) const { return rotary_.IsLong(tokens) ? long_angles_ : angles_; }

  RotaryConfig rotary_;
  Angles angles_, long_angles_;  // the second of long sequences, if these differ
};

// Why rotary positions cannot be taken off a model's keys: "a phi4flash model, which has no rotary positions", or those
// of longrope, which turn by the text's length. Empty where they can.
std::string WithoutRotary(const ModelConfig& config);

// What +prerotary takes off a layer's keys; nothing in a layer that does not rotate. Throws Error, naming `where` and
// the reason, where WithoutRotary has one.
std::shared_ptr<const KeyRotary> KeyRotaryOf(const ModelConfig& config, int layer, const std::string& where);

}  // namespace tare
