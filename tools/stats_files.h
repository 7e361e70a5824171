// SPDX-License-Identifier: Apache-2.0
// tare stats show, merge, diff: commands on statistics files.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "quant/observe/statistics_set.h"

namespace tare {

// One line per site, or the same as JSON; file: its name in the output.
void ShowOverview(const StatisticsSet& set, const std::string& file, const std::string& json);

void AddStatsFiles(CLI::App& stats);

}  // namespace tare
