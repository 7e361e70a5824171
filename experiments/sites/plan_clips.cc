// SPDX-License-Identifier: Apache-2.0
#include "experiments/sites/plan_clips.h"

#include "quant/base/error.h"
#include "quant/calibrate/clip.h"
#include "quant/calibrate/static_scales.h"
#include "quant/observe/statistics_file.h"

namespace tare {

float DynamicClip(const Rule& rule, std::span<const float> values, float absmax) {
  if (rule.options.percentile) return PercentileClip(values, *rule.options.percentile);
  if (rule.options.mse) return LeastErrorClip(values, rule.format);
  return absmax;
}

std::shared_ptr<const StatisticsSet> ReadStatisticsOf(const std::filesystem::path& path,
                                                      const std::string& weights_sha256) {
  auto set = std::make_shared<StatisticsSet>(ReadStatistics(path));
  const auto seen = set->job.find("weights_sha256");
  if (seen == set->job.end() || seen->second != weights_sha256) {
    Fail("{}: statistics of weights {}, expected those of {}; try tare stats --out on this model", path.string(),
         seen == set->job.end() ? "unknown" : seen->second, weights_sha256);
  }
  if (!set->Whole()) Fail("{}: a part of a job; try tare stats merge", path.string());
  return set;
}

const std::vector<float>& StaticClips::Of(const Rule& rule, const SiteBlock& block) const {
  TARE_CHECK(Known());
  const std::scoped_lock lock(mutex_);
  const auto [entry, is_new] = found_.try_emplace({&rule, block.site, block.layer, block.head, block.map});
  if (is_new) {
    try {
      entry->second = StaticScales(*seen_).Clips(rule, block.site, block.layer, block.head, block.map);
    } catch (...) {
      found_.erase(entry);
      throw;
    }
  }
  return entry->second;
}

}  // namespace tare
