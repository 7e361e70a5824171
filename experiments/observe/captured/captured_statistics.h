// SPDX-License-Identifier: Apache-2.0
// tare stats --tensors: a statistics file of arrays captured elsewhere, as tare stats MODEL --out writes it. A unit of
// work is a file; weights come from the first.
//
// The loss of attention's output (output_error_*) is not measured, because it needs more than the site's own values.
// cancellation needs both the maps (probs, with "maps") and the difference.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "experiments/observe/captured/captured_input.h"
#include "experiments/observe/statistics_job.h"

namespace tare {

// name: the model's name in tables.
StatisticsSet CollectCaptured(const CapturedInput& input, const std::string& name, const StatisticsOptions& options,
                              const std::string& version, const std::filesystem::path& out, const Progress& progress);

class FullObserver;

// Makes the same file from arrays that are fed as they are computed, with batches instead of files; it is
// byte-identical to that of files with these batches. Only the arrays of the current batch are kept.
class CapturedStream {
 public:
  CapturedStream(std::string name, const CapturedLayout& layout, StatisticsOptions options, std::string version);
  ~CapturedStream();
  // Adds an array to the current batch, or starts the next batch if this one has it; its values (row-major) are copied.
  void Add(ArrayInfo array, std::span<const std::byte> values);
  // Finishes the last batch and the file. Call it once, at the end.
  void Finish(const std::filesystem::path& out);

 private:
  struct Held;
  void EndBatch();

  const std::string name_, version_;
  const StatisticsOptions options_;
  std::map<std::string, Held> held_;  // by name; its memory is reused for the next batch
  CapturedIntake intake_;
  std::unique_ptr<FullObserver> observer_;  // made with the first batch, when the sites are known
};

}  // namespace tare
