// SPDX-License-Identifier: Apache-2.0
// Statistics of a model on an input, written to a file. A unit of work is a batch of ForwardAll; the weights belong to
// the first.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "experiments/observe/statistics_units.h"
#include "experiments/passes/sequences.h"
#include "quant/observe/statistics_set.h"

namespace tare {

// An empty set for the job.
StatisticsSet EmptyStatistics(const Model& model, const TokenInput& input, const std::vector<ScoredSequence>& sequences,
                              const StatisticsOptions& options, const std::string& version);

// Observes the shard's unfinished units and writes the file; returns its contents.
StatisticsSet CollectStatistics(Model& model, const TokenInput& input, const std::vector<ScoredSequence>& sequences,
                                const StatisticsOptions& options, const std::string& version,
                                const std::filesystem::path& out, const Progress& progress);

}  // namespace tare
