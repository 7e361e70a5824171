// SPDX-License-Identifier: Apache-2.0
// The magnitude that becomes a rule's largest code: of the values at hand (dynamic), or from a statistics file
// (+static). quant/calibrate/clip.h has the definitions.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "quant/format/plan.h"
#include "quant/observe/site_visitor.h"
#include "quant/observe/statistics_set.h"

namespace tare {

// Of values that share a scale and have this largest magnitude: that, or where the rule clips (+p99.9, +mse).
float DynamicClip(const Rule& rule, std::span<const float> values, float absmax);

// Reads a statistics file for a model. Throws Error where it is of other weights, with both hashes.
std::shared_ptr<const StatisticsSet> ReadStatisticsOf(const std::filesystem::path& path,
                                                      const std::string& weights_sha256);

class StaticClips {
 public:
  explicit StaticClips(std::shared_ptr<const StatisticsSet> seen) : seen_(std::move(seen)) {}

  // Whether there is a statistics file.
  bool Known() const { return seen_ != nullptr; }
  // One value, or one a channel. From several threads; found once and kept. Throws Error where the file has not seen
  // it.
  const std::vector<float>& Of(const Rule& rule, const SiteBlock& block) const;

 private:
  using Key = std::tuple<const Rule*, Site, int, int, int>;  // layer, head, map

  std::shared_ptr<const StatisticsSet> seen_;
  mutable std::mutex mutex_;
  mutable std::map<Key, std::vector<float>> found_;
};

}  // namespace tare
