// SPDX-License-Identifier: Apache-2.0
// Refusals of a plan's rules on a model's layers and weights; refusals.h has those of what one rule combines.
#pragma once

#include <string>

#include "experiments/plan/model_sites.h"
#include "experiments/plan/refusals.h"
#include "experiments/plan/resolved_plan.h"

namespace tare {

// Checks rules beside those for caches: decoding shows no maps, and later tokens are not known yet.
void CheckDecodes(const ResolvedPlan& plan);

// The place of what a linear layer multiplies by the weights of this place: of experts.down.in, whose rules are of all
// of a token's experts where they are executed, its first.
SiteKey InputKeyOf(const SiteKey& weight);

// Refuses a selector that matches nothing in the model at this site; `where` starts the message.
void CheckSelector(const Rule& rule, Site site, const ModelSites& model, const std::string& where);

// Refuses rules that nothing can carry out on this model, or that simulation cannot.
void CheckRule(const Rule& rule, const ModelSites& model);
// Checks rules for weights against how the model stores them.
void CheckWeights(const ResolvedPlan& plan, const ModelSites& model);
// Checks rules for weights that become codes in a file.
void CheckStored(const ResolvedPlan& plan, const ModelSites& model);
// Refuses rules for sites without an integer kernel, and for inputs of linear layers without one. Attention:
// executed_plan.h.
void CheckExecuted(const ResolvedPlan& plan, const ModelSites& model);

}  // namespace tare
