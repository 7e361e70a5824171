// SPDX-License-Identifier: Apache-2.0
#include "experiments/studies/sweep/shared_layers.h"

#include <algorithm>
#include <map>
#include <string>

namespace tare {
namespace {

// Behind all layers.
bool IsOutput(Site site) { return site == Site::kFinalNorm || site == Site::kLmHeadW || site == Site::kLmHeadIn; }

// Whether the rule may say something of the embedding or of a layer before this one.
bool ReachesBefore(const Rule& rule, int layer) {
  if (std::ranges::all_of(rule.sites, IsOutput)) return false;
  return rule.selector.layers.empty() || rule.selector.layers.front().first < layer;
}

// What a plan says of all that comes before the layer. Other texts may say the same; the same text says the same.
std::string TextBefore(const Plan& plan, int layer) {
  std::string text;
  for (const Rule& rule : plan.rules()) {
    if (ReachesBefore(rule, layer)) text += rule.text + "\n";
  }
  return text;
}

}  // namespace

SharedLayers::SharedLayers(const std::vector<SharingRun>& runs, int layers) : runs_(runs), layers_(layers) {
  std::map<std::string, int> numbers;
  for (const SharingRun& run : runs) {
    std::vector<int>& names = names_.emplace_back();
    for (int layer = 0; layer <= layers; ++layer)
      names.push_back(
          numbers.try_emplace(TextBefore(*run.plan, layer), static_cast<int>(numbers.size())).first->second);
  }
  for (size_t run = 0; run < runs.size(); ++run) {
    int& before = before_.emplace_back(0);
    for (size_t earlier = 0; earlier < run; ++earlier) {
      for (int layer = layers; layer > before; --layer) {
        if (Share(earlier, run, layer)) before = layer;
      }
    }
  }
}

KeptStreams::Run SharedLayers::Of(size_t run, int64_t most) const {
  KeptStreams::Run all{.names = names_[run], .kept = {}, .expected = {}};
  std::set<int> wanted;
  for (size_t later = run; later < runs_.size(); ++later) {
    if (runs_[later].task != runs_[run].task) continue;
    for (int layer = 1; layer <= layers_; ++layer)
      all.expected.insert({layer, names_[later][static_cast<size_t>(layer)]});
    // What this run shares with an earlier one, that one has kept.
    const int from = before_[later];
    if (later > run && from > before_[run] && Share(run, later, from)) wanted.insert(from);
  }
  const std::vector<int> layers(wanted.begin(), wanted.end());
  const size_t n = layers.size(), count = std::min(n, static_cast<size_t>(std::max<int64_t>(most, 0)));
  for (size_t i = 0; i < count; ++i) all.kept.insert(layers[(2 * i + 1) * n / (2 * count)]);
  return all;
}

}  // namespace tare
