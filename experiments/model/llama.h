// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "experiments/model/decoder.h"

namespace tare {

// One layer of Hugging Face transformers' llama (modeling_llama.py): weights, and the forward pass over the residual
// stream.
LayerWeights LoadLlamaLayer(Weights& weights, const ModelConfig& config, int layer);
void LlamaLayer(const LayerCall& call);

}  // namespace tare
