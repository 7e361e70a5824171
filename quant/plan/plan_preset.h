// SPDX-License-Identifier: Apache-2.0
// Names of whole plans: "int8", "int6" and "int4" make the whole model low-bit and executed. Inputs of linear layers
// stay at 8 bits with one scale per token (W8A8, W6A8, W4A8); weights, q, k, v and the probabilities have as many bits
// as the name says.
#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace tare {

constexpr std::array<std::string_view, 3> kPlanPresets = {"int8", "int6", "int4"};

// The plan of a preset; nullopt for any other text.
constexpr std::optional<std::string_view> PlanPreset(std::string_view name) {
  if (name == "int8")
    return "weights=int8/channel,linear_in=int8/token,"
           "q=int8/token,k=int8/token,probs=u8/block64,v=int8/block64.channel";
  if (name == "int6")
    return "weights=int6/channel,linear_in=int8/token,"
           "q=int6/token,k=int6/token,probs=u6/block64,v=int6/block64.channel";
  if (name == "int4")
    return "weights=int4/channel,linear_in=int8/token,"
           "q=int4/token,k=int4/token,probs=u4/block64,v=int4/block64.channel";
  return std::nullopt;
}

}  // namespace tare
