// SPDX-License-Identifier: Apache-2.0
// Inputs of linear layers whose channels equivalent weights scale (Family::smoothed): who reads one, and which of its
// channels share a factor.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "experiments/model/config/family.h"

namespace tare {

// Throws Error, starting with the method's name, for a family without such inputs.
void RequireScaledInputs(const Family& family, std::string_view method);

// Linear layers of a layer that share the input of this site, each expert's too.
std::vector<LinearLayer> LayersWithInput(Site site, const ModelConfig& config, int layer);

// Which factor each of the input's channels uses: for o_proj that of the value channel that it comes from, which all
// heads that share a V have in common, or of the head norm's channel, which all heads have in common; for others its
// own.
std::vector<int64_t> FactorOf(Site site, int64_t channels, const ModelConfig& config);

}  // namespace tare
