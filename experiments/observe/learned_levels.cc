// SPDX-License-Identifier: Apache-2.0
#include "experiments/observe/learned_levels.h"

#include <map>
#include <mutex>
#include <utility>

#include "quant/base/message.h"
#include "quant/calibrate/clipping.h"

namespace tare {
namespace {

bool HasLevels(const Rule& rule) { return rule.format.range == CodeRange::kMean; }

// What each rule rounds in each layer. All places are made beforehand: threads only find theirs.
class CountedRules {
 public:
  CountedRules(const Plan& plan, const ModelSites& model) : plan_(plan) {
    for (const Rule& rule : plan.rules()) {
      for (int layer = 0; HasLevels(rule) && layer < model.layers; ++layer) {
        if (Selects(rule.selector.layers, layer)) counted_[{&rule, layer}];
      }
    }
    if (counted_.empty())
      FailUsage(
          "--plan '{}': got no rule with levels to learn, expected k or v in normal4 to normal1, or a grid(...), with "
          "+mean; try k=normal3/channel+mean,v=normal3/token+mean",
          plan.canonical());
  }

  void See(const SiteKey& key, std::span<const float> values, const GroupScale& scale) {
    const Rule* const rule = plan_.Match(key);
    if (!HasLevels(*rule)) return;  // integers
    Counted& counted = counted_.at({rule, *key.layer});
    const std::lock_guard lock(counted.mutex);
    counted.seen = true;
    if (scale.scale.inv != 0)
      counted.counts.Add(values, scale.origin, scale.scale.inv);  // else equal: no level is used
  }

  // Null where the rule rounds nothing: it does not select the layer, or later rules take all of it.
  const LevelCounts* Of(const Rule& rule, int layer) const {
    const auto found = counted_.find({&rule, layer});
    return found == counted_.end() || !found->second.seen ? nullptr : &found->second.counts;
  }

 private:
  struct Counted {
    std::mutex mutex;
    LevelCounts counts;
    bool seen = false;
  };
  const Plan& plan_;
  std::map<std::pair<const Rule*, int>, Counted> counted_;
};

LayerLevels LevelsOf(const Rule& rule, int layer, const LevelCounts& counts) {
  const std::span<const float> own = Info(rule.format).grid.levels;
  LayerLevels found{.site = rule.sites.front(), .layer = layer, .rule = rule.text, .values = counts.total()};
  try {
    found.levels = BestLevels(counts, static_cast<int>(own.size()));
  } catch (const Error& error) {
    Fail("{}, layer {}: {}", Name(found.site), layer, error.what());
  }
  found.loss = LevelLoss(counts, own);
  found.learned_loss = LevelLoss(counts, found.levels);
  return found;
}

// The rule for this layer alone, with these levels.
Rule WithLevels(Rule rule, int layer, std::span<const float> levels) {
  rule.selector.layers = {{layer, layer}};
  rule.format = WithRange(Format(Levels(levels)), CodeRange::kMean);
  return rule;
}

}  // namespace

LearnedLevels LearnLevels(Model& model, const Plan& plan, const std::vector<ScoredSequence>& sequences,
                          const Progress& progress) {
  if (plan.HasStaticScales())
    FailUsage("--plan '{}': got +static, expected scales of the values at hand; try the plan without that rule",
              plan.canonical());
  const ModelSites sites = ModelSitesOf(model);
  PlanRun run(plan, Carrying::kSimulated, sites);
  run.RefuseCache("levels");
  CountedRules counted(run.plan(), sites);
  run.OnGroup([&](const SiteKey& key, std::span<const float> values, const GroupScale& scale) {
    counted.See(key, values, scale);
  });
  ForwardAll(model, run.Begin(model, progress), sequences, progress, [](const TokenBatch&) {});
  LearnedLevels all;
  for (const Rule& rule : run.plan().rules()) {
    if (!HasLevels(rule)) all.plan.Append(rule);
    for (int layer = 0; HasLevels(rule) && layer < sites.layers; ++layer) {
      const LevelCounts* const counts = counted.Of(rule, layer);
      if (counts == nullptr) continue;
      if (counts->total() == 0) {  // all groups have equal values: the rule's own levels serve
        all.plan.Append(WithLevels(rule, layer, Info(rule.format).grid.levels));
        continue;
      }
      all.layers.push_back(LevelsOf(rule, layer, *counts));
      all.plan.Append(WithLevels(rule, layer, all.layers.back().levels));
    }
  }
  if (all.layers.empty()) Fail("levels: got groups of equal values alone, expected others; try more tokens");
  return all;
}

}  // namespace tare
