// SPDX-License-Identifier: Apache-2.0
// Parts shared by `tare sweep` and `tare compare`: their options, and running a sweep and writing it to its folder.
#pragma once

#include <string>

#include "tools/cells.h"

namespace tare {

// All options but MODEL.
void AddSweepOptions(CLI::App& command, CellsCommand& options);

// Files of the folder: table.csv, table.txt, table.json and the `others`.
std::vector<AtomicFile> ClaimSweep(const CellsCommand& options, const std::vector<std::string>& others);

// A finished sweep, as it was written.
struct SweepResult {
  Json json;
  std::string table, legend;
};
// `line`, `runs_later`: as RunCells.
SweepResult RunAndWrite(const SweepOptions& options, ProgressLine& line, int64_t runs_later = 0);

}  // namespace tare
