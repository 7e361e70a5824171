// SPDX-License-Identifier: Apache-2.0
// What a plan does to a model, site by site, and which modes can run it: JSON (tare.plan/1) and text, for `tare plan`.
//
//   {"schema", "plan", "hash", "model",
//    "rules":     [{"rule", "places", "overridden"}]      places where it holds, and where a later match replaces it
//    "sites":     [{"site", "layers", "heads", "rule", "format", "scale_per", "options", "executed"}]
//    "f32":       [names of sites that no rule quantizes],
//    "recipe" (of the literature): {"name", "source", "note"},
//    "simulated": null or the reason why not; "executed", "stored" (only with a rule for weights): the same
//    "lookahead": whether a scale may span later tokens than the query,
//    "key_bits", "value_bits" (only with a rule for them): of cached keys and values, per value}
//
// A row of sites covers the places of a site where one rule holds in the same heads; "all" is every layer or head.
// "executed": "integer kernel"; "f32 product" (codes of weights alone, dequantized); "simulated" (inputs of linear
// layers, rounded in f32); "no kernel"; null for a rule of f32, or if the plan cannot be executed for another reason.
//
// Bits are what a plan's keys and values take as a cache in its formats would hold them: codes, and what
// values share. f32 counts as the 16 bits of f16, and so does every scale, minimum and length that is f32 in a
// simulation, as caches of the literature hold them: rounding a scale to f16 moves a value by at most 2^-11 of it.
//
//   scale            16 bits, of MX and NVFP4 8; +zero as many bits as a code; +min and +mean 16
//   +outliers<p>     32 bits for each: its value and its place
//   +sketch          1 bit a channel, and 16 for the row's length
//   cache_k, cache_v scales, minima and zero points of 32 bits each, of group<N> and block<N>.channel 16, per channel
//                    one for a page of 64 tokens, as Tare's caches hold them; what they held in f32 in a run counts as
//                    f32, by its share of the pairs of a query and a key that its cache held
//
// Where a cache has a rule, it decides, whatever a rule for `k` or `v` says. A scale per channel of `k` or `v`, head or
// tensor is shared by a whole text and counts nothing; +keep and the policies of caches count nothing either.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "experiments/plan/model_sites.h"
#include "quant/plan/plan.h"

namespace tare {

// Bits of a code of this rule: of weights as files store it, of others those of an index into the format's values.
int CodeBits(const Rule& rule);

// What a plan's keys and values take.
struct KeyValueBits {
  double keys = 16, values = 16;       // per value, the mean over layers and heads
  std::optional<double> rounded = {};  // the share of a run's caches that was in codes
};

// caches: the plan's rules for caches and those given beside it; rounded: the share of these caches in codes. Empty
// without a rule for keys or values, and where the width of heads is not known.
std::optional<KeyValueBits> KeyValueBitsOf(const Plan& plan, const Plan& caches, const ModelSites& model,
                                           const std::optional<double>& rounded = std::nullopt);

// {"key_bits", "value_bits", "rounded" (of caches that were run)}; {} of none.
nlohmann::ordered_json ToJson(const std::optional<KeyValueBits>& bits);

nlohmann::ordered_json PlanJson(const Plan& plan, const ModelSites& model, const std::string& name,
                                const StaticSource& statics = {});

// Lines of at most 80 columns, except for longer rules and reasons.
std::string PlanText(const nlohmann::ordered_json& json);

// For plans without selectors: one layer, heads with two maps. Throws Error if a plan selects layers, heads or maps.
ModelSites AnyModel(const Plan& plan);

}  // namespace tare
