// SPDX-License-Identifier: Apache-2.0
// Rotary positions as a GGUF file says them, in the words of config.json: the base, and one of linear, yarn, llama3
// (the tensor rope_freqs, rotary_factors.h) and phi3's longrope (the tensors rope_factors_short and rope_factors_long).
//
// llama.cpp multiplies YaRN's cosines and sines by 0.1 ln(factor) + 1 and by rope.scaling.attn_factor. Its converter
// writes transformers' attention_factor as rope.scaling.yarn_attn_factor, and `truncate` as rope.scaling.yarn_truncate;
// files of gpt-oss from before it did have none, and the published model does not truncate.
#pragma once

#include <span>

#include "quant/file/json_value.h"
#include "quant/interchange/gguf/architecture_keys.h"
#include "quant/interchange/gguf/architecture_table.h"
#include "quant/interchange/gguf/container.h"

namespace tare::gguf {

// Adds rope_theta and rope_scaling to a configuration that has head_dim. Throws Error for other kinds, and for two at
// once.
void AddRotary(const Architecture& architecture, std::span<const Tensor> tensors, ArchitectureKeys& keys, Json& config);

// Whether the tensor says rotary positions and is no part of a layer.
bool IsRotary(const Architecture& architecture, std::string_view tensor);

}  // namespace tare::gguf
