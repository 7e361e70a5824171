// SPDX-License-Identifier: Apache-2.0
// Refusals of a ResolvedPlan, all in one form.
#pragma once

#include <string>
#include <string_view>

#include "experiments/plan/model_sites.h"
#include "experiments/plan/resolved_plan.h"

namespace tare {

[[noreturn]] void RefuseRule(const Rule& rule, std::string_view got, std::string_view expected,
                             std::string_view attempt);
// "a scale per block64.channel", for messages.
std::string ScaleText(const Rule& rule);

// Rules beside those of caches: decoding shows no maps, and what comes later is not there yet.
void CheckDecodes(const ResolvedPlan& plan);

// Whether integer kernels take the site; of the weights of a linear layer, the site that they multiply.
bool HasKernel(Site site);
Site InputOf(Site weight);

// Refuses a selector that matches nothing in the model at this site; `where` begins the message.
void CheckSelector(const Rule& rule, Site site, const ModelSites& model, const std::string& where);

// What nothing carries out on this model, and what simulation does not.
void CheckRule(const Rule& rule, const ModelSites& model);
// Weights against how the model stores them.
void CheckWeights(const ResolvedPlan& plan, const ModelSites& model);
// Weights that become codes in a file.
void CheckStored(const ResolvedPlan& plan, const ModelSites& model);
// Sites without an integer kernel, and inputs of linear layers that have none. Attention: executed_plan.h.
void CheckExecuted(const ResolvedPlan& plan, const ModelSites& model);

}  // namespace tare
