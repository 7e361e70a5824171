// SPDX-License-Identifier: Apache-2.0
// What a plan does to a model, site by site, and which modes can run it: JSON (tare.plan/1) and text, for `tare plan`.
//
//   {"schema", "plan", "hash", "model",
//    "rules":     [{"rule", "places", "overridden"}]      places where it holds, and where a later match replaces it
//    "sites":     [{"site", "layers", "heads", "rule", "format", "scale_per", "options", "executed"}]
//    "f32":       [names of sites that no rule quantizes],
//    "simulated": null or the reason why not; "executed", "stored" (only with a rule for weights): the same
//    "lookahead": whether a scale may span later tokens than the query,
//    "key_bits", "value_bits" (only with a rule for them): of cached keys and values, per value (key_value_bits.h)}
//
// A row of sites covers the places of a site where one rule holds in the same heads; "all" is every layer or head.
// "executed": "integer kernel"; "f32 product" (codes of weights alone, dequantized); "no kernel"; null if the rule says
// f32, or if the plan cannot be executed for another reason.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "experiments/plan/model_sites.h"
#include "experiments/plan/static_source.h"
#include "quant/plan/plan.h"

namespace tare {

nlohmann::ordered_json PlanJson(const Plan& plan, const ModelSites& model, const std::string& name,
                                const StaticSource& statics = {});

// Lines of at most 80 columns, except for longer rules and reasons.
std::string PlanText(const nlohmann::ordered_json& json);

// A substitute for a model, for plans without selectors: one layer, heads with two maps. Throws Error for a plan that
// selects layers, heads or maps.
ModelSites AnyModel(const Plan& plan);

}  // namespace tare
