// SPDX-License-Identifier: Apache-2.0
// What `tare sweep` and `tare compare` share: options, and a sweep that is run and written into its folder.
#pragma once

#include <string>
#include <vector>

#include "experiments/sweep/comparison.h"
#include "tools/files.h"
#include "tools/run_options.h"

namespace tare {

struct SweepCommand {
  std::vector<std::string> models, statistics;
  std::string tasks, json;
  SweepOptions sweep;
  Resampling resampling;
  MachineOptions machine;
};

// All but MODEL.
void AddSweepOptions(CLI::App& command, SweepCommand& options);

// From the texts of the command line; `outputs` are files of the folder besides the sweep's own.
std::vector<AtomicFile> ClaimSweep(SweepCommand& options, const std::vector<std::string>& outputs);

// Ran, and written as cells.jsonl, table.csv, table.txt and table.json.
struct SweepResult {
  nlohmann::ordered_json json;
  std::string table, legend;
};
SweepResult RunAndWrite(const SweepCommand& options);

}  // namespace tare
