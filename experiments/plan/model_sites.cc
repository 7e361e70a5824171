// SPDX-License-Identifier: Apache-2.0
#include "experiments/plan/model_sites.h"

#include <algorithm>

#include "quant/base/message.h"
#include "quant/calibrate/clipping.h"
#include "quant/statistics/statistics_file.h"

namespace tare {
namespace {

std::string KeptName(const SiteKey& key) {
  return Formatted("{}.layer{}.head{}.map{}", Name(key.site), key.layer.value_or(-1), key.head.value_or(-1),
                   key.map.value_or(0));
}

// A quantized checkpoint's clips (tare quantize --stats), for exactly the rules that made it; or empty.
StaticSource FromModel(const Checkpoint& files) {
  if (files.quantized() == nullptr || files.quantized()->clips().empty()) return {};
  return [clips = files.quantized()->clips(), plan = Plan::Parse(files.quantized()->provenance().plan)](
             const Rule& rule, const SiteKey& key) {
    const Rule* kept = plan.Match(key);
    const auto found = clips.find(KeptName(key));
    if (kept == nullptr || kept->text != rule.text || found == clips.end())
      FailUsage(
          "plan rule '{}': the model keeps no static scale of {} under this rule, only those of '{}'; try --stats "
          "FILE.h5",
          rule.text, TextOf(key), plan.canonical());
    return found->second;
  };
}

}  // namespace

bool ModelSites::Has(Site site) const {
  const auto some = layers_of.find(site);
  if (some != layers_of.end() && some->second.empty()) return false;
  if (IsOfScan(site)) return some != layers_of.end();
  if (IsOfExperts(site)) return experts > 0;
  if (site == Site::kDifference) return maps == 2;
  if (IsCache(site)) return decodes;
  if (Info(site).of == SiteOf::kGate) return gated_ffn;
  if (Info(site).of == SiteOf::kLambda) return heads.contains(Site::kLambda);
  if (site == Site::kQNorm || site == Site::kKNorm || site == Site::kAttnGate) return heads.contains(site);
  return true;
}

bool ModelSites::HasIn(Site site, int layer) const {
  const auto some = layers_of.find(site);
  return Has(site) && (some == layers_of.end() || std::ranges::contains(some->second, layer));
}

int ModelSites::Heads(Site site) const {
  const auto found = heads.find(site);
  return found == heads.end() ? 0 : static_cast<int>(found->second.size());
}

int ModelSites::Width(const SiteKey& key) const {
  const Site site = key.site;
  if (IsCache(site) && latents.contains(key.layer.value_or(-1)))
    return site == Site::kCacheK ? latents.at(*key.layer).k_width : latents.at(*key.layer).v_width;
  return value_dim > 0 && (site == Site::kV || site == Site::kCacheV) ? value_dim : head_dim;
}

std::optional<int> ModelSites::GroupAt(const SiteKey& key) const {
  const auto found = groups.find(key.site);
  return !key.head || found == groups.end() ? std::nullopt
                                            : std::optional(found->second.at(static_cast<size_t>(*key.head)));
}

std::vector<SiteKey> ModelSites::Keys(Site site) const {
  std::vector<SiteKey> keys;
  if (!Has(site)) return keys;
  if (!ClassOf(site).dimensions.contains('l')) return {{site}};
  for (int layer = 0; layer < layers; ++layer) {
    if (!HasIn(site, layer)) continue;
    if (ClassOf(site).dimensions.contains('e')) {
      for (int expert = 0; expert < experts; ++expert) keys.push_back({.site = site, .layer = layer, .expert = expert});
      continue;
    }
    if (!heads.contains(site)) keys.push_back({site, layer});
    for (int head = 0; head < Heads(site); ++head)
      keys.push_back({site, layer, head, heads.at(site)[static_cast<size_t>(head)]});
  }
  return keys;
}

std::shared_ptr<const StatisticsSet> ReadStatisticsOf(const std::filesystem::path& path,
                                                      const std::string& weights_sha256,
                                                      const std::string& config_sha256) {
  auto set = std::make_shared<StatisticsSet>(ReadStatistics(path));
  const auto seen = set->job.find("weights_sha256");
  if (seen == set->job.end() || seen->second != weights_sha256)
    Fail("{}: statistics of weights {}, expected those of {}; try tare stats --out on this model", path.string(),
         seen == set->job.end() ? "unknown" : seen->second, weights_sha256);
  const auto config = set->job.find("config_sha256");
  if (config != set->job.end() && config->second != config_sha256)
    Fail("{}: statistics under the config.json {}, expected those under {}; try tare stats --out on this model",
         path.string(), config->second, config_sha256);
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
