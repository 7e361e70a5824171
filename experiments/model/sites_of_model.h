// SPDX-License-Identifier: Apache-2.0
// The sites that plans and statistics select from, of a model or of its configuration alone.
#pragma once

#include "experiments/model/model.h"
#include "experiments/plan/model_sites.h"

namespace tare {

ModelSites ModelSitesOf(const ModelConfig& config);
// Also fills in how the model's weights are stored.
ModelSites ModelSitesOf(const Model& model);

}  // namespace tare
