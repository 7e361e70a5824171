// SPDX-License-Identifier: Apache-2.0
// Refusals of a ResolvedPlan, all in one form.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "experiments/plan/model_sites.h"
#include "experiments/plan/resolved_plan.h"

namespace tare {

[[noreturn]] void RefuseRule(const Rule& rule, std::string_view got, std::string_view expected,
                             std::string_view attempt);
// "a scale per block64.channel", for messages.
std::string ScaleText(const Rule& rule);

// Checks rules beside those for caches: decoding shows no maps, and later tokens are not known yet.
void CheckDecodes(const ResolvedPlan& plan);

// Whether integer kernels support the site; for weights, the site that a linear layer multiplies by them.
bool HasKernel(Site site);
Site InputOf(Site weight);
// The weights that an input is multiplied by; empty for other sites.
std::optional<Site> WeightOf(Site input);
// The place of what a linear layer multiplies by the weights of this place: of experts.down.in, whose rules are of all
// of a token's experts where they are executed, its first.
SiteKey InputKeyOf(const SiteKey& weight);

// Refuses a selector that matches nothing in the model at this site; `where` starts the message.
void CheckSelector(const Rule& rule, Site site, const ModelSites& model, const std::string& where);

// Refuses a rule of a cache whose groups or blocks caches do not have; passes all others.
void CheckCacheRule(const Rule& rule);
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
