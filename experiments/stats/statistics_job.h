// SPDX-License-Identifier: Apache-2.0
// Statistics of a model on an input, into a file. The work is cut into units, the batches of ForwardAll (the weights go
// with the first); --shard i/n takes the units u with u mod n = i. What is done is kept beside the file (FILE.part) and
// taken up again by --resume: the file comes out the same to the byte.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "experiments/sequences/sequences.h"
#include "experiments/stats/marked_spans.h"
#include "experiments/stats/measured_format.h"
#include "experiments/stats/site_selection.h"
#include "quant/observe/statistics_set.h"

namespace tare {

struct Shard {
  size_t index = 0, count = 1;
};

// "0/1", "2/5". Throws Error.
Shard ParseShard(const std::string& text);

struct StatisticsOptions {
  std::string sites, formats;  // SiteSelection, ParseMeasuredFormats
  std::string calibrate;       // ParseCalibratedFormats
  MarkedSpans spans;           // of the sequences, or nothing
  Shard shard;
  bool resume = false;
  int64_t checkpoint = 64;  // sequences between two writes of FILE.part
};

// The set that nothing has been seen of.
StatisticsSet EmptyStatistics(const Model& model, const TokenInput& input, const std::vector<ScoredSequence>& sequences,
                              const StatisticsOptions& options, const std::string& version);

// Observes what is left of the shard and writes the file; returns what it holds.
StatisticsSet CollectStatistics(Model& model, const TokenInput& input, const std::vector<ScoredSequence>& sequences,
                                const StatisticsOptions& options, const std::string& version,
                                const std::filesystem::path& out, const Progress& progress);

}  // namespace tare
