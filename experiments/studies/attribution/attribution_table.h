// SPDX-License-Identifier: Apache-2.0
// Attributions as a table of at most 80 columns and for programs.
//
//   divergence:heldout, kld
//     f32 0.00e+00, the whole plan 5.23e-02
//     part              alone                               taken out
//     o_proj.w          +8.74e-03 [+8.03e-03, +9.20e-03] *  +9.89e-03 +/- 9.6e-04 *
//     ..
//     sum of alone      +4.95e-02 [+4.76e-02, +5.14e-02]
//     left over         +2.9e-03 [+1e-04, +5.1e-03]
//     the whole plan    +5.23e-02 [+4.94e-02, +5.47e-02] *
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "experiments/studies/attribution/attribution.h"

namespace tare {

std::string AttributionTable(const std::vector<Attribution>& attributions);

// "+8.0e-03 [+7.7e-03, +8.4e-03] *"; with its error where it has no interval.
std::string ChangeWithEnds(const Comparison& change, const char* format);

// What the marks mean, in lines, for below the table.
std::string AttributionLegend(const std::vector<Attribution>& attributions);

// task, figure, part, effect (plan, alone, taken_out, sum, left_over), plan, and of the effect what a sweep's change
// has.
std::string AttributionCsv(const std::vector<Attribution>& attributions, const Plan& plan);

// tare.attribution/1: {"schema", "model", "plan", "by", "level", "draws", "seed", "figures": [{"task", "figure", "n",
// "baseline", "whole", "change", "parts": [{"part", "alone_plan", "without_plan", "alone", "taken_out"}], "sum",
// "left_over"}]}
nlohmann::ordered_json AttributionJson(const std::vector<Attribution>& attributions, const std::string& model,
                                       const Plan& plan, const std::string& by, const Resampling& resampling);

}  // namespace tare
