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

#include <string>
#include <vector>

#include "experiments/studies/attribution/attribution.h"

namespace tare {

std::string AttributionTable(const std::vector<Attribution>& attributions);

// "+8.0e-03 [+7.7e-03, +8.4e-03] *"; with its error if it has no interval.
std::string ChangeWithEnds(const Comparison& change, const char* format);

// The lines below the table that explain its marks.
std::string AttributionLegend(const std::vector<Attribution>& attributions);

// task, figure, part, effect (plan, alone, taken_out, sum, left_over), plan, and for the effect the columns of a
// sweep's change.
std::string AttributionCsv(const std::vector<Attribution>& attributions, const Plan& plan);

// tare.attribution/1: {"schema", "model", "plan", "by", "level", "draws", "seed", "figures": [{"task", "figure", "n",
// "baseline", "whole", "change", "parts": [{"part", "alone_plan", "without_plan", "alone", "taken_out"}], "sum",
// "left_over"}]}; taken_out is null if it was not run.
Json AttributionJson(const std::vector<Attribution>& attributions, const std::string& model, const Plan& plan,
                     const std::string& by);

// Attributions of two models side by side, as a table of at most 80 columns and for programs.
//
//   divergence:heldout, kld, of each part of int4 alone
//     A: novels-standard, B: novels-differential
//     part                        A           B  B minus A
//     o_proj.w            +2.44e-03   +8.74e-03  +6.30e-03 [+5.90e-03, +6.70e-03] *
//     ..
//     the whole plan      +4.10e-02   +5.23e-02  +1.1e-02 [+7e-03, +1.5e-02] *
//
// `plan` as the user gave it, such as a preset's name. models: the two names.
std::string AttributionPairTable(const std::vector<AttributionPair>& pairs, const std::string& plan,
                                 const std::vector<std::string>& models);

// The lines below the table that explain its marks.
std::string AttributionPairLegend(const std::vector<AttributionPair>& pairs);

// task, figure, part (empty: the whole plan), first, second, and for the difference the columns of a sweep's.
std::string AttributionPairCsv(const std::vector<AttributionPair>& pairs);

// [{"task", "figure", "part", "first", "second", "difference"}]; null where a model has no such part.
Json AttributionPairJson(const std::vector<AttributionPair>& pairs);

}  // namespace tare
