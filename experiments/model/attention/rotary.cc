// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/attention/rotary.h"

#include <cmath>
#include <limits>
#include <utility>

#include "quant/base/error.h"
#include "quant/base/formatted.h"

namespace tare {
namespace {

constexpr int64_t kLongest = std::numeric_limits<int64_t>::max();

}  // namespace

RotaryTable::RotaryTable(const RotaryConfig& rotary, int head_dim) : rotary_(rotary) {
  angles_.frequencies = RotaryFrequencies(rotary, head_dim);
  if (rotary.IsLong(kLongest)) long_angles_.frequencies = RotaryFrequencies(rotary, head_dim, kLongest);
}

void RotaryTable::Reserve(int64_t positions) {
  const auto factor = static_cast<float>(rotary_.attention_factor);
  angles_.Reserve(positions, factor);
  if (rotary_.IsLong(kLongest)) long_angles_.Reserve(positions, factor);
}

void RotaryTable::Angles::Reserve(int64_t positions, float factor) {
  if (frequencies.empty()) return;
  for (int64_t p = std::ssize(cosine) / Half(); p < positions; ++p) {
    for (const float frequency : frequencies) {
      const float angle = static_cast<float>(p) * frequency;
      cosine.push_back(std::cos(angle) * factor);
      sine.push_back(std::sin(angle) * factor);
    }
  }
}

std::string WithoutRotary(const ModelConfig& config) {
  if (!config.rotates) return Formatted("a {} model, which has no rotary positions", config.family);
  if (config.rotary.type == RotaryConfig::Type::kLongRope) return "longrope, whose keys turn by the text's length";
  return "";
}

std::shared_ptr<const KeyRotary> KeyRotaryOf(const ModelConfig& config, int layer, const std::string& where) {
  if (const std::string why = WithoutRotary(config); !why.empty())
    Fail("{}: got +prerotary for {}; try without it", where, why);
  std::vector<float> frequencies;  // none leave keys as they are
  if (config.Rotates(layer)) frequencies = RotaryFrequencies(config.Rotary(layer), config.head_dim);
  const bool halves = config.rotary.layout == RotaryConfig::Layout::kHalfSplit;
  return std::make_shared<const KeyRotary>(std::move(frequencies),
                                           halves ? RotaryPairs::kHalves : RotaryPairs::kNeighbours, config.head_dim);
}

}  // namespace tare
