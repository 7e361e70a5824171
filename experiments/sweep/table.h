// SPDX-License-Identifier: Apache-2.0
// A finished sweep as tables: for people, within 80 columns, one block per figure of a task, and in it the rows of each
// model with the change from f32 ("16 bits"); and as comma-separated values, one row per cell and figure.
//
// A change carries the standard error of the paired difference, since both runs answer the same items (s(d) / sqrt(n)) or
// score the same windows (evidence/paired_windows.h); of few items an interval (evidence/accuracy.h).
#pragma once

#include <string>
#include <vector>

#include "experiments/sweep/sweep.h"

namespace tare {

std::string SweepTable(const std::vector<SweepCell>& cells);
// model, task, site, format, granularity, bits, plan, executed, figure, value, stderr, low, high, change, change_stderr,
// change_low, change_high, n: low to high are 95 % intervals, of accuracies alone. A field without meaning is empty.
std::string SweepCsv(const std::vector<SweepCell>& cells);

}  // namespace tare
