// SPDX-License-Identifier: Apache-2.0
// Hugging Face transformers' diffllama (modeling_diffllama.py).
#pragma once

#include "experiments/model/family.h"

namespace tare {

// 0.8 - 0.6 exp(-0.3 l), l from 0. Source: Differential Transformer, arXiv 2410.05258, section 2.1.
float LambdaInit(int layer);

extern const Family kDiffLlama;

}  // namespace tare
