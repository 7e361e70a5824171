// SPDX-License-Identifier: Apache-2.0
// Statistics of a model on an input, into a file: a unit of the work is a batch of ForwardAll, and the weights go with
// the first.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "experiments/observe/statistics_units.h"
#include "experiments/passes/sequences.h"
#include "quant/observe/statistics_set.h"

namespace tare {

// The set that nothing has been seen of.
StatisticsSet EmptyStatistics(const Model& model, const TokenInput& input, const std::vector<ScoredSequence>& sequences,
                              const StatisticsOptions& options, const std::string& version);

// Observes the unfinished units of the shard and writes the file; returns its contents.
StatisticsSet CollectStatistics(Model& model, const TokenInput& input, const std::vector<ScoredSequence>& sequences,
                                const StatisticsOptions& options, const std::string& version,
                                const std::filesystem::path& out, const Progress& progress);

}  // namespace tare
