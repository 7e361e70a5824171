// SPDX-License-Identifier: Apache-2.0
// A finished sweep as a table of at most 80 columns: one block per figure of a task, and in it the rows of each model
// with the change from f32 ("16 bits"); with several models, also how much more each one's figure changed than the
// first one's.
//
//   plan                        acc                     change from 16 bits
//   attn_logits=int4/tensor     0.480 +/- 0.050         -0.230 +/- 0.058 *
//
// A change has the standard error of the paired difference, or an interval for few items; a star if it is significant
// after Holm over the table, a question mark if too few items changed for that (comparison.h).
#pragma once

#include <string>
#include <vector>

#include "experiments/studies/sweep/comparison.h"

namespace tare {

std::string SweepTable(const std::vector<SweepCell>& cells, const Comparisons& comparisons);

// "-0.230 +/- 0.058 *"; of few items with an interval. `format` is of the value, without a sign.
std::string ComparisonText(const Comparison& comparison, const char* format);

// What the marks mean, in lines, for below the table.
std::string SweepLegend(const Comparisons& comparisons);

}  // namespace tare
