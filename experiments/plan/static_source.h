// SPDX-License-Identifier: Apache-2.0
// The source of the scales of rules with +static: a statistics file, or the model itself if it was quantized with one.
// quant/calibrate/static_scales.h has the definitions.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "quant/file/checkpoint.h"
#include "quant/observe/statistics_set.h"
#include "quant/plan/plan.h"

namespace tare {

// Reads a statistics file for a model. Throws Error where it is of other weights, with both hashes.
std::shared_ptr<const StatisticsSet> ReadStatisticsOf(const std::filesystem::path& path,
                                                      const std::string& weights_sha256);

// The static clips of a rule at a place: one value, or one per channel. Throws Error where it knows of none.
using StaticSource = std::function<std::vector<float>(const Rule& rule, const SiteKey& key)>;

StaticSource FromStatistics(std::shared_ptr<const StatisticsSet> seen);
// What a quantized checkpoint keeps (tare quantize --stats), for the very rules that it was made with; nothing where it
// keeps none.
StaticSource FromModel(const Checkpoint& files);
// What a user names, or else what the model keeps.
StaticSource StaticSourceOf(const std::filesystem::path& statistics, const Checkpoint& files);

// Static clips under the names that a quantized checkpoint keeps them by.
std::map<std::string, std::vector<float>> KeptClips(const std::map<SiteKey, std::vector<float>>& clips);

}  // namespace tare
