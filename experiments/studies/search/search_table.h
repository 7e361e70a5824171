// SPDX-License-Identifier: Apache-2.0
// A search as a table of at most 80 columns (except for the plan, which is one word) and for programs.
//
//   kld               bits  predicted  measured
//     step 41         8.02   9.93e-03  1.02e-02 [9.6e-03, 1.10e-02] beyond
//     step 40         8.11   9.71e-03  9.98e-03 [9.4e-03, 1.07e-02] the answer
//
//   bits by layer
//     o_proj.w          8  8  6  8
// Within a size, a row for the largest plan with one level for all parts that fits, and one for the choice.
#pragma once

#include <string>

#include "experiments/studies/search/search.h"

namespace tare {

std::string SearchTable(const Search& search);

// One row per step of the frontier: step, part, rule, bits, predicted; if it was measured, also measured, stderr, low,
// high, within, and the plan.
std::string SearchCsv(const Search& search);

// tare.search/1: {"schema", "model", "within", "level", "bits", "plan", "parts": [{"part", "operands",
// "levels": [{"rule", "bits", "kld"}]}], "frontier": [{"step", "part", "rule", "bits", "predicted"}], "verified":
// [{"step", "bits", "predicted", "plan", "tasks": [{"task", "figure", "value", "change"}]}]}. Within a size "within" is
// null, "budget": {"bits_per_weight" at most, "bytes" of the answer with all other tensors} is there, and each level
// has "bytes".
Json SearchJson(const Search& search);

}  // namespace tare
