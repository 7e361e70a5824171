// SPDX-License-Identifier: Apache-2.0
// The source of the scales of rules with +static: a statistics file, or the model itself if it was quantized with one.
// quant/calibrate/clipping.h has the definitions.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "quant/checkpoint/checkpoint.h"
#include "quant/observe/statistics_set.h"
#include "quant/plan/plan.h"

namespace tare {

// Reads a statistics file for a model. Throws Error, with both hashes, if it is of other weights, or if it says that it
// is of another configuration.
std::shared_ptr<const StatisticsSet> ReadStatisticsOf(const std::filesystem::path& path,
                                                      const std::string& weights_sha256,
                                                      const std::string& config_sha256);

// The static clips of a rule at a place: one value, or one per channel. Throws Error if there are none.
using StaticSource = std::function<std::vector<float>(const Rule& rule, const SiteKey& key)>;

StaticSource FromStatistics(std::shared_ptr<const StatisticsSet> seen);
// The user's statistics file, or else the model's own clips (tare quantize --stats), for exactly the rules that it was
// made with; empty if it has none.
StaticSource StaticSourceOf(const std::filesystem::path& statistics, const Checkpoint& files);

// Static clips under their names in a quantized checkpoint.
std::map<std::string, std::vector<float>> KeptClips(const std::map<SiteKey, std::vector<float>>& clips);

}  // namespace tare
