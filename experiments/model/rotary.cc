// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/rotary.h"

#include <algorithm>
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

// Of YaRN (Peng et al. 2023, arXiv 2309.00071): the channel pair, not rounded, that turns `rotations` times
// within the original positions.
double PairOfRotations(double rotations, const RotaryConfig& c, int head_dim) {
  return head_dim * std::log(c.original_positions / (rotations * 2 * std::numbers::pi)) / (2 * std::log(c.theta));
}

// Pair `pair` of a ramp from the fast pair, kept, to the slow one, divided; its frequency unscaled is 1 / power.
float Yarn(float power, int pair, const RotaryConfig& c, int head_dim) {
  double fast = PairOfRotations(c.fast_rotations, c, head_dim), slow = PairOfRotations(c.slow_rotations, c, head_dim);
  if (c.truncate) fast = std::floor(fast), slow = std::ceil(slow);
  fast = std::max(fast, 0.0), slow = std::min(slow, head_dim - 1.0);
  if (fast == slow) slow += 0.001;
  const float ramp = (static_cast<float>(pair) - static_cast<float>(fast)) / static_cast<float>(slow - fast);
  const float kept = 1.0f - std::clamp(ramp, 0.0f, 1.0f);
  return 1.0f / (static_cast<float>(c.factor) * power) * (1.0f - kept) + 1.0f / power * kept;
}

}  // namespace

std::vector<float> RotaryFrequencies(const RotaryConfig& config, int head_dim) {
  std::vector<float> frequencies;
  for (int i = 0; i < head_dim; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(head_dim);
    const float power = std::pow(static_cast<float>(config.theta), exponent), frequency = 1.0f / power;
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
      case RotaryConfig::Type::kYarn:
        frequencies.push_back(Yarn(power, i / 2, config, head_dim));
        break;
    }
  }
  return frequencies;
}

void RotaryTable::Reserve(int64_t positions) {
  for (int64_t p = static_cast<int64_t>(cosine_.size()) / Half(); p < positions; ++p) {
    for (const float frequency : frequencies_) {
      const float angle = static_cast<float>(p) * frequency;
      cosine_.push_back(std::cos(angle) * factor_);
      sine_.push_back(std::sin(angle) * factor_);
    }
  }
}

}  // namespace tare
