// SPDX-License-Identifier: Apache-2.0
// Hugging Face transformers' qwen2 (modeling_qwen2.py): Qwen 1.5, 2 and 2.5.
#pragma once

#include "experiments/model/config_keys.h"
#include "experiments/model/family.h"

namespace tare {

// use_sliding_window, sliding_window, max_window_layers, layer_types.
void ReadQwenWindows(const ConfigKeys& keys, ModelConfig& config);

}  // namespace tare
