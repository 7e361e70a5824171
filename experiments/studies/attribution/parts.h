// SPDX-License-Identifier: Apache-2.0
// A plan cut into parts, to be tried one at a time: by site, layer, head and map, or some of these. A part is the
// places that the plan quantizes and that agree in what it is cut by; what a site does not have (the layer of
// lm_head.w) is no ground to part from the rest.
//
//   int8 by site          q_proj.w  k_proj.w  ..  q  k  v  probs
//   q=int4/token,k=int4/token by layer, map   [l0,m1]  [l0,m2]  [l1,m1]  ..
//
// A scale that spans what is cut (one per tensor, by head) is then of the part alone.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "experiments/plan/model_sites.h"
#include "quant/plan/plan.h"

namespace tare {

struct Grain {
  bool site = false, layer = false, head = false, map = false;
};
// "site,layer": one or more of site, layer, head and map, each once. Throws Error.
Grain ParseGrain(std::string_view text);

struct PlanPart {
  std::string name;  // "q[l0]"; "[l0]" where sites are not told apart; "outside layers" where there is none
  Plan alone;        // of the plan only the part
  Plan without;      // the plan but for the part
};

// In the order of sites, layers, heads and maps. Throws Error for a plan of fewer than two parts, and for one whose
// parts no selector tells apart.
std::vector<PlanPart> PartsOf(const Plan& plan, const Grain& grain, const ModelSites& model);

}  // namespace tare
