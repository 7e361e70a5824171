// SPDX-License-Identifier: Apache-2.0
// tare stats --tensors: the statistics file of arrays that were captured elsewhere, as tare stats MODEL --out writes it. A
// unit of the work is a file; weights are those of the first.
//
// Not measured, for it takes more than a site's own values: what attention's output loses (output_error_*). cancellation
// takes both the maps (probs, with "maps") and the difference.
#pragma once

#include "experiments/captured/captured_input.h"
#include "experiments/stats/statistics_units.h"

namespace tare {

// name: of the model, for tables.
StatisticsSet CollectCaptured(const CapturedInput& input, const std::string& name, const StatisticsOptions& options,
                              const std::string& version, const std::filesystem::path& out, const Progress& progress);

}  // namespace tare
