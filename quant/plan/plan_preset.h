// SPDX-License-Identifier: Apache-2.0
// Names of whole plans: "int8", "int6" and "int4" make the whole model low-bit and executed. Inputs of linear layers
// stay at 8 bits with one scale per token (W8A8, W6A8, W4A8); weights, q, k, v and the probabilities have as many bits
// as the name says.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "quant/base/formatted.h"

namespace tare {

constexpr std::array<std::string_view, 3> kPlanPresets = {"int8", "int6", "int4"};

// The plan of a preset; nullopt for any other text.
inline std::optional<std::string> PlanPreset(std::string_view name) {
  if (!std::ranges::contains(kPlanPresets, name)) return std::nullopt;
  return Formatted(
      "weights=int{0}/channel,linear_in=int8/token,"
      "q=int{0}/token,k=int{0}/token,probs=u{0}/block64,v=int{0}/block64.channel",
      name.substr(3));
}

}  // namespace tare
