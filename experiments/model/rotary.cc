// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/rotary.h"

#include <cmath>
#include <numbers>

namespace tare {
namespace {

float Llama3(float frequency, const RotaryConfig& c) {
  const float wavelength = 2.0f * std::numbers::pi_v<float> / frequency;
  const auto original = static_cast<float>(c.original_positions);
  const auto low = static_cast<float>(c.low_frequency_factor), high = static_cast<float>(c.high_frequency_factor);
  const auto factor = static_cast<float>(c.factor);
  if (wavelength > original / low) return frequency / factor;
  if (wavelength < original / high) return frequency;
  const float smooth = (original / wavelength - low) / (high - low);
  return (1.0f - smooth) * frequency / factor + smooth * frequency;
}

}  // namespace

std::vector<float> RotaryFrequencies(const RotaryConfig& config, int head_dim) {
  std::vector<float> frequencies;
  for (int i = 0; i < head_dim; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(head_dim);
    const float frequency = 1.0f / std::pow(static_cast<float>(config.theta), exponent);
    switch (config.type) {
      case RotaryConfig::Type::kDefault:
        frequencies.push_back(frequency);
        break;
      case RotaryConfig::Type::kLinear:
        frequencies.push_back(frequency / static_cast<float>(config.factor));
        break;
      case RotaryConfig::Type::kLlama3:
        frequencies.push_back(Llama3(frequency, config));
        break;
    }
  }
  return frequencies;
}

void RotaryTable::Reserve(int64_t positions) {
  for (int64_t p = static_cast<int64_t>(cosine_.size()) / Half(); p < positions; ++p) {
    for (const float frequency : frequencies_) {
      const float angle = static_cast<float>(p) * frequency;
      cosine_.push_back(std::cos(angle));
      sine_.push_back(std::sin(angle));
    }
  }
}

}  // namespace tare
