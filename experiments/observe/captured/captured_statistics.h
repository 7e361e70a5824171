// SPDX-License-Identifier: Apache-2.0
// tare stats --tensors: the statistics file of arrays captured elsewhere, as tare stats MODEL --out writes it. A unit
// of work is a file; weights come from the first.
//
// Not measured, because it needs more than the site's own values: what attention's output loses (output_error_*).
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

// The same file of arrays that are fed as they are computed, with a batch in place of a file: byte for byte the same as
// from files of the batches. Only the arrays of the current batch are kept.
class CapturedStream {
 public:
  CapturedStream(std::string name, const CapturedLayout& layout, StatisticsOptions options, std::string version);
  ~CapturedStream();
  // Adds an array to the current batch, or to the next if this one has it; its values (row-major) are
  // copied.
  void Add(ArrayInfo array, std::span<const std::byte> values);
  // Finishes the last batch and the file. Call it once, at the end.
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
