// SPDX-License-Identifier: Apache-2.0
// A statistics job as units of work: --shard i/n takes the units u with u mod n = i. Finished units are kept beside the
// file (FILE.part), and --resume continues from them: the resulting file is byte-identical.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "experiments/observe/marked_spans.h"
#include "experiments/observe/site_selection.h"
#include "experiments/passes/sequences.h"
#include "quant/observe/statistics_set.h"

namespace tare {

class FullObserver;

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

// Of the lengths and ids of all: by it runs on the same sequences know each other.
std::string HashOf(const std::vector<ScoredSequence>& sequences);

// What the options say of the job: sites, formats, calibrators, spans. Throws Error for a format that none of the
// selected sites has sums of.
void AddOptions(StatisticsSet& set, const StatisticsOptions& options, const SiteSelection& sites,
                const ModelSites& model);

// Each of the three is called with a unit.
struct UnitWork {
  std::function<int64_t(size_t)> positions, sequences;  // that it has
  std::function<void(size_t)> run;                      // shows it to the observer
};

// Runs the unfinished units of the shard and writes the file.
void CollectUnits(StatisticsSet& set, FullObserver& observer, const UnitWork& work, bool has_bos,
                  const StatisticsOptions& options, const std::filesystem::path& out, const Progress& progress);

}  // namespace tare
