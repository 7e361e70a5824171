// SPDX-License-Identifier: Apache-2.0
// A finished sweep for programs: CSV with one row per cell and figure, and JSON with everything in the cells.
#pragma once

#include <string>
#include <vector>

#include "experiments/studies/sweep/comparison.h"
#include "experiments/table/table.h"

namespace tare {

// low, high.
Columns<Interval> IntervalColumns();
// Of a comparison: value, stderr, low, high; and gained, lost, p, p_holm, detectable, for_half, in JSON significant and
// too_few besides. What is of items alone is lacking where there are none.
Columns<Comparison> SizeColumns();
Columns<Comparison> EvidenceColumns();
Json ComparisonJson(const Comparison& comparison);

// model, task, site, format, granularity, bits, plan, executed, figure, value, stderr, low, high, change,
// change_stderr, change_low, change_high, n; gained, lost, p, p_holm, detectable, for_half of the change; against,
// difference and the same of it, of the drops. low to high are 95 % intervals, the value's of accuracies alone. A field
// without meaning is empty.
std::string SweepCsv(const std::vector<SweepCell>& cells, const Comparisons& comparisons);

// tare.sweep/3: {"schema", "level", "draws", "seed", "cells": [{.., "key", "result", "changes": [{"figure", ..}],
// "differences": [..]}]}
Json SweepJson(const std::vector<SweepCell>& cells, const Comparisons& comparisons, const Resampling& resampling);

}  // namespace tare
