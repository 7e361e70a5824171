// SPDX-License-Identifier: Apache-2.0
#include "experiments/plan/static_source.h"

#include "quant/base/message.h"
#include "quant/calibrate/clipping.h"
#include "quant/statistics/statistics_file.h"

namespace tare {
namespace {

std::string KeptName(const SiteKey& key) {
  return Formatted("{}.layer{}.head{}.map{}", Name(key.site), key.layer.value_or(-1), key.head.value_or(-1),
                   key.map.value_or(0));
}

// The clips in a quantized checkpoint (tare quantize --stats), for exactly the rules that it was made with; empty if it
// has none.
StaticSource FromModel(const Checkpoint& files) {
  if (files.quantized() == nullptr || files.quantized()->clips().empty()) return {};
  return [clips = files.quantized()->clips(), plan = Plan::Parse(files.quantized()->provenance().plan)](
             const Rule& rule, const SiteKey& key) {
    const Rule* kept = plan.Match(key);
    const auto found = clips.find(KeptName(key));
    if (kept == nullptr || kept->text != rule.text || found == clips.end()) {
      FailUsage(
          "plan rule '{}': the model keeps no static scale of {} under this rule, only those of '{}'; try --stats "
          "FILE.h5",
          rule.text, TextOf(key), plan.canonical());
    }
    return found->second;
  };
}

}  // namespace

std::shared_ptr<const StatisticsSet> ReadStatisticsOf(const std::filesystem::path& path,
                                                      const std::string& weights_sha256,
                                                      const std::string& config_sha256) {
  auto set = std::make_shared<StatisticsSet>(ReadStatistics(path));
  const auto seen = set->job.find("weights_sha256");
  if (seen == set->job.end() || seen->second != weights_sha256) {
    Fail("{}: statistics of weights {}, expected those of {}; try tare stats --out on this model", path.string(),
         seen == set->job.end() ? "unknown" : seen->second, weights_sha256);
  }
  const auto config = set->job.find("config_sha256");
  if (config != set->job.end() && config->second != config_sha256) {
    Fail("{}: statistics under the config.json {}, expected those under {}; try tare stats --out on this model",
         path.string(), config->second, config_sha256);
  }
  if (!set->Whole()) Fail("{}: only a part of a job; try tare stats merge", path.string());
  return set;
}

StaticSource FromStatistics(std::shared_ptr<const StatisticsSet> seen) {
  return [seen = std::move(seen)](const Rule& rule, const SiteKey& key) { return StaticClips(*seen, rule, key); };
}

StaticSource StaticSourceOf(const std::filesystem::path& statistics, const Checkpoint& files) {
  return statistics.empty() ? FromModel(files)
                            : FromStatistics(ReadStatisticsOf(statistics, files.ContentHash(), files.ConfigHash()));
}

std::map<std::string, std::vector<float>> KeptClips(const std::map<SiteKey, std::vector<float>>& clips) {
  std::map<std::string, std::vector<float>> kept;
  for (const auto& [key, values] : clips) kept[KeptName(key)] = values;
  return kept;
}

}  // namespace tare
