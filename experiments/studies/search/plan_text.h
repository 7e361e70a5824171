// SPDX-License-Identifier: Apache-2.0
// Few rules that describe every layer of every site:
//
//   weights: int4/channel but for down_proj.w of layers 0, 3  ->  weights=int4/channel,down_proj.w[l0]=int8/channel,..
//
// A site, or a group of sites, gets one rule for the level that saves the most text; runs of neighbouring layers with
// other levels get rules of their own.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "quant/plan/site.h"

namespace tare {

inline constexpr const char* kExact = "f32";

// What stands right of a rule's =, by layer; one for a site outside the layers. Every site of the model that a group
// has (weights, linear_in) is there, or none of the group's. "f32" where all is exact.
std::string ShortRules(const std::map<Site, std::vector<std::string>>& sites);

}  // namespace tare
