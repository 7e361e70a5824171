// SPDX-License-Identifier: Apache-2.0
// What plans and statistics select from, of a model or of its configuration alone.
#pragma once

#include "experiments/model/model.h"
#include "experiments/plan/model_sites.h"

namespace tare {

ModelSites ModelSitesOf(const ModelConfig& config);
// Also how its weights are stored.
ModelSites ModelSitesOf(const Model& model);

}  // namespace tare
