// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "experiments/model/decoder.h"

namespace tare {

// One layer of Hugging Face transformers' diffllama (modeling_diffllama.py): weights with lambda, and the forward pass.
LayerWeights LoadDiffLlamaLayer(Weights& weights, const ModelConfig& config, int layer);
void DiffLlamaLayer(const LayerCall& call);

// 0.8 - 0.6 exp(-0.3 l), l from 0. Source: Differential Transformer, arXiv 2410.05258, section 2.1.
float LambdaInit(int layer);

}  // namespace tare
