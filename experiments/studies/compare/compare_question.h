// SPDX-License-Identifier: Apache-2.0
// What `tare compare` adds to its sweep of two models: the baseline, each text's divergence from a model's own f32,
// outliers on the first text, and the cost of each site alone (an attribution per model in a folder below).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "experiments/studies/attribution/attribution.h"
#include "experiments/studies/sweep/sweep.h"
#include "quant/file/json.h"
#include "quant/file/sha256.h"

namespace tare {

// Puts the baseline first, and after each perplexity the divergence of its text from each model's own f32.
void CompleteQuestion(SweepOptions& options);

// The file of the first text among the tasks. Throws UsageError if there is none.
std::filesystem::path TextOf(const std::vector<TaskSpec>& tasks);

// One model's sweep, and the plan cut into its parts.
struct ModelAttribution {
  SweepOptions sweep;
  AttributionQuestion question;
};

// The plan to cost by site: the requested one, else the preset of fewest bits (its rules exclude caches); empty: none.
std::string AttributedPlan(const SweepOptions& options, const std::string& asked);

// Both models by site, by divergence on so many tokens of the first text; none without a plan. Throws Error, before
// anything runs, for a plan that cannot be cut, and for windows that outliers or divergence cannot use.
std::vector<ModelAttribution> AskBoth(const SweepOptions& compare, const std::string& plan, int64_t tokens);

// The outliers of the models on the first text (experiments/observe/statistics_report.h). Each model is a line of
// outliers.jsonl in the folder, with the key of what it was measured on, and is not measured again.

// The lines of an earlier run; damaged ones are left out, with a notice. Throws Error for a file of something else.
RecordLines EarlierOutliers(const SweepOptions& options);

// The outliers of each model; writes outliers.jsonl. `starting` is called before each model that is measured.
std::vector<Json> OutliersOf(const SweepOptions& options, const RecordLines& earlier, const CellStarting& starting);

}  // namespace tare
