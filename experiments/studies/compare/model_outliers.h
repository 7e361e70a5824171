// SPDX-License-Identifier: Apache-2.0
// The outliers of a comparison's models on its first text (experiments/observe/outlier_report.h). Each model is a line
// of outliers.jsonl in the folder, with the key of what it was measured on, and is not measured again.
#pragma once

#include <vector>

#include "experiments/studies/sweep/sweep.h"
#include "quant/file/checked_lines.h"
#include "quant/file/json_value.h"

namespace tare {

// The lines of an earlier run; damaged ones are left out, with a notice. Throws Error for a file of something else.
RecordLines EarlierOutliers(const SweepOptions& options);

// Of each model; writes outliers.jsonl. `starting`: before each model that is measured.
std::vector<Json> OutliersOf(const SweepOptions& options, const RecordLines& earlier, const CellStarting& starting);

}  // namespace tare
