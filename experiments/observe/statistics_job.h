// SPDX-License-Identifier: Apache-2.0
// A statistics job as units of work: --shard i/n runs the units u with u mod n = i. Finished units are kept beside the
// file (FILE.part), from which the same job continues; the resulting file is byte-identical.
//
// Of a model on an input, a unit of work is a batch of ForwardAll; the weights belong to the first.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "experiments/observe/measured.h"
#include "experiments/passes/sequences.h"
#include "quant/observe/statistics_set.h"
#include "quant/statistics/statistics_file.h"

namespace tare {

class FullObserver;

// The sink rate is of the first 64 queries, and needs one.
inline constexpr int64_t kMostSkipped = 63;

struct StatisticsOptions {
  std::string sites, formats;  // SiteSelection, ParseMeasuredFormats
  std::string calibrate;       // ParseCalibratedFormats
  MarkedSpans spans;           // of the sequences, or empty
  int64_t skip_first = kSkipFirst;
  Shard shard;
  bool fresh = false;       // starts over where FILE.part or FILE is of this job
  Asked asked = {};         // for the next run, kept in FILE.part
  int64_t checkpoint = 64;  // sequences between two writes of FILE.part
};

// Hash of all lengths and ids, by which runs on the same sequences are recognised.
std::string HashOf(const std::vector<ScoredSequence>& sequences);

// Records the options in the job: sites, formats, calibrators, spans, skipped positions. Throws Error for a format that
// is measured at none of the selected sites.
void AddOptions(StatisticsSet& set, const StatisticsOptions& options, const SiteSelection& sites,
                const ModelSites& model);

// Both are called with a unit's number.
struct UnitWork {
  std::function<std::span<const int64_t>(size_t)> lengths;  // in positions, of the unit's sequences
  // Shows the unit to the observer. A long one reports how many of its positions are done.
  std::function<void(size_t, const Progress& within)> run;
};

// Runs the unfinished units of the shard and writes the file, if `out` names one.
void CollectUnits(StatisticsSet& set, FullObserver& observer, const UnitWork& work, bool has_bos,
                  const StatisticsOptions& options, const std::filesystem::path& out, const Progress& progress);

// An empty set for the job.
StatisticsSet EmptyStatistics(const Model& model, const TokenInput& input, const std::vector<ScoredSequence>& sequences,
                              const StatisticsOptions& options, const std::string& version);

// Observes the shard's unfinished units and writes the file; returns its contents.
StatisticsSet CollectStatistics(Model& model, const TokenInput& input, const std::vector<ScoredSequence>& sequences,
                                const StatisticsOptions& options, const std::string& version,
                                const std::filesystem::path& out, const Progress& progress);

}  // namespace tare
