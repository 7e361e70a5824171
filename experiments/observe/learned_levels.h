// SPDX-License-Identifier: Apache-2.0
// Levels of keys and values, learned by layer on a calibration text: rules of k and v whose format has a mean
// (normal3+mean, grid(...)+mean) get levels at which the values that they round on this text lose least, without
// outliers, in units of their group's deviation about its mean. Source: KVQuant's non-uniform levels (Hooper et al.,
// arXiv 2401.18079, section 3.3), one set per layer's keys and values. KVQuant scales by range and weighs by the
// squared gradient of the model's loss; here all values weigh the same.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/model/plan_run.h"
#include "experiments/passes/sequences.h"

namespace tare {

struct LayerLevels {
  Site site{};
  int layer = 0;
  std::string rule;           // whose values these are
  int64_t values = 0;         // that were seen
  double loss = 0;            // mean square error of the rule's own levels, in shares of the values' variance
  double learned_loss = 0;    // of the learned ones
  std::vector<float> levels;  // learned
};

struct LearnedLevels {
  std::vector<LayerLevels> layers;  // by rule, then layer
  Plan plan;                        // with one rule for each; other rules as they were
};

// plan: simulated, so that a layer sees what the plan makes of the layers before it. Throws Error for a plan without a
// rule that has levels to learn, with static scales, or where fewer different values than levels were seen.
LearnedLevels LearnLevels(Model& model, const Plan& plan, const std::vector<ScoredSequence>& sequences,
                          const Progress& progress);

}  // namespace tare
