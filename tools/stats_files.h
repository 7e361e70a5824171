// SPDX-License-Identifier: Apache-2.0
// tare stats show, merge, diff: what can be done with statistics files.
#pragma once

#include <CLI/CLI.hpp>

namespace tare {

void AddStatsFiles(CLI::App& stats);

}  // namespace tare
