// SPDX-License-Identifier: Apache-2.0
// The magnitude that becomes a rule's largest code: of the values at hand (dynamic), or from a statistics file or the
// model itself (+static). quant/calibrate/clip.h has the definitions.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "quant/file/checkpoint.h"
#include "quant/observe/site_visitor.h"
#include "quant/observe/statistics_set.h"
#include "quant/plan/plan.h"

namespace tare {

// Of values that share a scale and have this largest magnitude: that, or where the rule clips (+p99.9, +mse).
float DynamicClip(const Rule& rule, std::span<const float> values, float absmax);

// Reads a statistics file for a model. Throws Error where it is of other weights, with both hashes.
std::shared_ptr<const StatisticsSet> ReadStatisticsOf(const std::filesystem::path& path,
                                                      const std::string& weights_sha256);

// The static clips of a rule at a place (site, layer, head, map of a block): one value, or one a channel. Throws Error
// where it knows of none.
using StaticSource = std::function<std::vector<float>(const Rule& rule, const SiteBlock& place)>;

StaticSource FromStatistics(std::shared_ptr<const StatisticsSet> seen);
// What a quantized checkpoint keeps (tare quantize --stats), for the very rules that it was made with; nothing where it
// keeps none.
StaticSource FromModel(const Checkpoint& files);
// What a user names, or else what the model keeps.
StaticSource StaticSourceOf(const std::filesystem::path& statistics, const Checkpoint& files);

// What a plan's rules with +static need of a statistics file, under the names of a quantized checkpoint. Throws Error
// where it has not seen an input of a linear layer that they name.
std::map<std::string, std::vector<float>> KeptClips(const Plan& plan, int layers, const StatisticsSet& seen);

class StaticClips {
 public:
  explicit StaticClips(StaticSource source) : source_(std::move(source)) {}

  bool Known() const { return source_ != nullptr; }
  // From several threads; found once and kept.
  const std::vector<float>& Of(const Rule& rule, const SiteBlock& block) const;

 private:
  using Key = std::tuple<const Rule*, Site, int, int, int>;  // layer, head, map

  StaticSource source_;
  mutable std::mutex mutex_;
  mutable std::map<Key, std::vector<float>> found_;
};

}  // namespace tare
