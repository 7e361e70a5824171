// SPDX-License-Identifier: Apache-2.0
// tare stats --tensors: the statistics file of arrays that were captured elsewhere, as tare stats MODEL --out writes
// it. A unit of the work is a file; weights are those of the first.
//
// Not measured, for it takes more than a site's own values: what attention's output loses (output_error_*).
// cancellation takes both the maps (probs, with "maps") and the difference.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "experiments/observe/captured/captured_input.h"
#include "experiments/observe/statistics_units.h"

namespace tare {

// name: of the model, for tables.
StatisticsSet CollectCaptured(const CapturedInput& input, const std::string& name, const StatisticsOptions& options,
                              const std::string& version, const std::filesystem::path& out, const Progress& progress);

class FullObserver;

// The same file of arrays that are fed as they are computed, a batch in the place of a file: to the byte what files of
// the batches give. Of the arrays only those of the batch at hand are kept.
class CapturedStream {
 public:
  CapturedStream(std::string name, const CapturedLayout& layout, StatisticsOptions options, std::string version);
  ~CapturedStream();
  // An array of the batch at hand, whose values (row-major) are copied; of the next one, where this batch has it
  // already.
  void Add(ArrayInfo array, std::span<const std::byte> values);
  // The last batch, and the file. Called once, last.
  void Finish(const std::filesystem::path& out);

 private:
  struct Held;
  void EndBatch();

  const std::string name_, version_;
  const StatisticsOptions options_;
  std::map<std::string, Held> held_;  // by name: memory stays from batch to batch
  CapturedIntake intake_;
  std::unique_ptr<FullObserver> observer_;  // from the first batch on: by it the sites are known
};

}  // namespace tare
