// SPDX-License-Identifier: Apache-2.0
// Attributions of two models side by side, as a table of at most 80 columns and for programs.
//
//   divergence:heldout, kld, of each part of int4 alone
//     A: novels-standard, B: novels-differential
//     part                        A           B  B less A
//     o_proj.w            +2.44e-03   +8.74e-03  +6.30e-03 [+5.90e-03, +6.70e-03] *
//     ..
//     the whole plan      +4.10e-02   +5.23e-02  +1.1e-02 [+7e-03, +1.5e-02] *
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "experiments/studies/attribution/attribution_pair.h"

namespace tare {

// `plan` as it was given: a preset by its name. models: names of the two.
std::string AttributionPairTable(const std::vector<AttributionPair>& pairs, const std::string& plan,
                                 const std::vector<std::string>& models);

// task, figure, part (or none: the whole plan), first, second, and of the difference what a sweep's has.
std::string AttributionPairCsv(const std::vector<AttributionPair>& pairs);

// [{"task", "figure", "part", "first", "second", "difference"}]; null where a model has no such part.
nlohmann::ordered_json AttributionPairJson(const std::vector<AttributionPair>& pairs);

}  // namespace tare
