// SPDX-License-Identifier: Apache-2.0
// What a checkpoint is: family, shapes, parameters, bytes, formats and schemes, and lambda of differential layers.
#pragma once

#include "experiments/model/model.h"
#include "quant/file/json.h"

namespace tare {

// tare.inspect/1. Optional keys are there where they mean something.
Json Describe(const Model& model);

// Its "quantized" or "foreign" matrices in the order of their first, those of a layer's experts together, or of all
// layers, where all else is equal: their names with * for the number, their bytes added, and their "count".
enum class Together { kExperts, kLayers };
Json MatricesOf(const Json& matrices, Together what);

}  // namespace tare
