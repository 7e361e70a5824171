// SPDX-License-Identifier: Apache-2.0
#include "experiments/sites/plan_clips.h"

#include <format>

#include "quant/base/error.h"
#include "quant/calibrate/clip.h"
#include "quant/calibrate/static_scales.h"
#include "quant/statistics/statistics_file.h"

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

namespace {

std::string KeptName(Site site, int layer, int head, int map) {
  return std::format("{}.layer{}.head{}.map{}", Name(site), layer, head, map);
}

}  // namespace

StaticSource FromStatistics(std::shared_ptr<const StatisticsSet> seen) {
  return [seen = std::move(seen)](const Rule& rule, const SiteBlock& at) {
    return StaticScales(*seen).Clips(rule, at.site, at.layer, at.head, at.map);
  };
}

StaticSource FromModel(const Checkpoint& files) {
  if (files.quantized() == nullptr || files.quantized()->clips().empty()) return {};
  return [clips = files.quantized()->clips(), plan = Plan::Parse(files.quantized()->provenance().plan)](
             const Rule& rule, const SiteBlock& at) {
    const Rule* kept = plan.Match(at.site, at.layer, at.head, at.map);
    const auto found = clips.find(KeptName(at.site, at.layer, at.head, at.map));
    if (kept == nullptr || kept->text != rule.text || found == clips.end()) {
      Fail(
          "plan rule '{}': the model keeps no static scale for {} in layer {} under this rule, only those of '{}'; try "
          "--stats FILE.h5",
          rule.text, Name(at.site), at.layer, plan.canonical());
    }
    return found->second;
  };
}

StaticSource StaticSourceOf(const std::filesystem::path& statistics, const Checkpoint& files) {
  return statistics.empty() ? FromModel(files) : FromStatistics(ReadStatisticsOf(statistics, files.ContentHash()));
}

std::map<std::string, std::vector<float>> KeptClips(const Plan& plan, int layers, const StatisticsSet& seen) {
  std::map<std::string, std::vector<float>> clips;
  for (const auto& [key, statistics] : seen.sites) {
    const Rule* rule = plan.Match(key.site, key.layer, key.head, key.map);
    if (rule == nullptr || rule->format == Format::kF32 || !rule->options.static_scale) continue;
    clips[KeptName(key.site, key.layer, key.head, key.map)] =
        StaticScales(seen).Clips(*rule, key.site, key.layer, key.head, key.map);
  }
  // The inputs of linear layers are what a model cannot run without.
  for (const auto& [site, name] : kSites) {
    const bool of_linear = Site::kQProjIn <= site && site <= Site::kDownProjIn;
    for (int layer = 0; of_linear && layer < layers; ++layer) {
      const Rule* rule = plan.Match(site, layer, -1, 0);
      if (rule == nullptr || rule->format == Format::kF32 || !rule->options.static_scale) continue;
      if (!clips.contains(KeptName(site, layer, -1, 0)))
        Fail("plan rule '{}': the statistics have not seen {} of layer {}; try tare stats with all sites", rule->text,
             name, layer);
    }
  }
  return clips;
}

const std::vector<float>& StaticClips::Of(const Rule& rule, const SiteBlock& block) const {
  TARE_CHECK(Known());
  const std::scoped_lock lock(mutex_);
  const auto [entry, is_new] = found_.try_emplace({&rule, block.site, block.layer, block.head, block.map});
  if (is_new) {
    try {
      entry->second = source_(rule, block);
    } catch (...) {
      found_.erase(entry);
      throw;
    }
  }
  return entry->second;
}

}  // namespace tare
