// SPDX-License-Identifier: Apache-2.0
// Maps a checkpoint's tensors to the sites of a plan.
#pragma once

#include <map>
#include <string>

#include "experiments/model/config.h"
#include "quant/plan/site_key.h"

namespace tare {

// Tensors that plans quantize, by name.
std::map<std::string, SiteKey> WeightSites(const ModelConfig& config);

}  // namespace tare
