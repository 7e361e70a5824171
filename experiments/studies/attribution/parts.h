// SPDX-License-Identifier: Apache-2.0
// Cuts a plan into parts that are tested one at a time: by site, layer, head or group of heads, and map, or some of
// these. A part is the set of quantized places that agree in these keys; a key that a site lacks (the layer of
// lm_head.w) is ignored for it.
//
//   int8 by site          q_proj.w  k_proj.w  ..  q  k  v  probs
//   q=int4/token,k=int4/token by layer, map   [l0,m1]  [l0,m2]  [l1,m1]  ..
//   q=int4/token,k=int4/token by head-group   [g0]  [g1]  ..
//
// A group is what shares keys or values (ModelSites::groups): in grouped-query attention a key head, its value head and
// the query and output heads that read them; in a differential model the key heads of both maps. Groups count from 0,
// by their first output head. Selectors of plans have no groups: the part's plans name the heads of each site.
//
// A scale that spans several parts (one per tensor, cut by head) then covers only the part.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "experiments/plan/model_sites.h"
#include "quant/plan/plan.h"

namespace tare {

struct Grain {
  bool site = false, layer = false, head = false, head_group = false, map = false;
};
// Parses "site,layer": one or more of site, layer, head or head-group, and map, each once. Throws Error.
Grain ParseGrain(std::string_view text);

struct PlanPart {
  std::string name;  // "q[l0]"; "[l0]" if not cut by site; "[g0]" of a group; "outside layers" for sites without one
  Plan alone;        // only this part of the plan
  Plan without;      // the plan without this part
};

// In the order of sites, layers, heads and maps. Throws Error for a plan with fewer than two parts, and for one whose
// parts no selector can separate.
std::vector<PlanPart> PartsOf(const Plan& plan, const Grain& grain, const ModelSites& model);

}  // namespace tare
