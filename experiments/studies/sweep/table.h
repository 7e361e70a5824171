// SPDX-License-Identifier: Apache-2.0
// A finished sweep, for programs as CSV with one row per cell and figure and as JSON with everything in the cells, and
// for people as a table of at most 80 columns: one block per figure of a task, and in it the rows of each model
// with the change from unquantized; with several models, also how much more each one's figure changed than the
// first one's.
//
//   plan                        acc                     change from unquantized
//   attn_logits=int4/tensor ^   0.480 +/- 0.050         -0.230 +/- 0.058 *
//
// A change of a task's primary figure has the standard error of the paired difference, or an interval if there are few
// items; a star if it is significant after Holm over these, a question mark if too few items changed to decide
// (comparison.h). One of another figure has its interval alone.
#pragma once

#include <string>
#include <vector>

#include "experiments/studies/sweep/comparison.h"
#include "experiments/table/table.h"

namespace tare {

// low, high.
Columns<Interval> IntervalColumns();
// Columns of a comparison: value, stderr, low, high; then gained, lost, p, p_holm, detectable, for_half and, in JSON,
// significant and too_few. Columns for items are missing if there are none.
Columns<Comparison> SizeColumns();
Columns<Comparison> EvidenceColumns();
Json ComparisonJson(const Comparison& comparison);

// model, task, site, format, granularity, bits, key_bits, value_bits (key_value_bits.h), plan, executed, figure,
// value, stderr, low, high, change, change_stderr, change_low, change_high, n; gained, lost, p, p_holm, detectable,
// for_half of the change; against, difference and the same columns for differences of drops. low and high are ends of
// 95 % intervals, the value's only for accuracies. Fields without meaning are empty.
std::string SweepCsv(const std::vector<SweepCell>& cells, const Comparisons& comparisons);

// tare.sweep/3: {"schema", "level", "cells": [{.., "key", "result", "changes": [{"figure", "primary", ..}],
// "differences": [..]}]}
Json SweepJson(const std::vector<SweepCell>& cells, const Comparisons& comparisons);

std::string SweepTable(const std::vector<SweepCell>& cells, const Comparisons& comparisons);

// "-0.230 +/- 0.058 *"; with an interval if few items changed, or if the figure is not its task's primary one. `format`
// is the value's, without a sign.
std::string ComparisonText(const Comparison& comparison, const char* format);

// Lines of legends, for marks and for what is missing.
inline constexpr const char* kLookAheadLegend = "^ lookahead: a scale may span later tokens than the query\n";
inline constexpr const char* kTooFewLegend = "? too few items: with four changed items, no change can be significant\n";
inline constexpr const char* kFewUnitsLegend =
    "no errors of fewer than 20 windows or samples: try more tokens, a shorter\n--window, or more items\n";
// Why changes of primary figures have errors and no star: divergences from the model itself.
std::string UntestedLegend(const std::vector<const Comparison*>& of);
// Of too few windows, and of windows that leave fewer than kFewDegrees degrees of freedom: their p are large. Of the
// ten degrees of 125 windows, an interval is 2.2 errors either way, near the 2.0 of many.
inline constexpr int kFewDegrees = 10;
std::string UnitsLegend(const std::vector<const Comparison*>& of);

// The lines below the table that explain its marks.
std::string SweepLegend(const Comparisons& comparisons);

}  // namespace tare
