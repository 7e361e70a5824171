// SPDX-License-Identifier: Apache-2.0
// A finished sweep as tables: for people, one block per figure of a task with bits across and the
// change from 16 bits; and as comma-separated values, one row per cell. The change of an accuracy carries the standard
// error of the paired difference, s(d) / sqrt(n) over the items' outcomes, since both runs answer the same items.
#pragma once

#include <string>
#include <vector>

#include "experiments/sweep/sweep.h"

namespace tare {

std::string SweepTable(const std::vector<SweepCell>& cells);
std::string SweepCsv(const std::vector<SweepCell>& cells);

}  // namespace tare
