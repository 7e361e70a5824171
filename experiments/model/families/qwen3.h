// SPDX-License-Identifier: Apache-2.0
// Hugging Face transformers' qwen3 (modeling_qwen3.py), and the gate that its authors added to attention's output:
// github.com/qiuzh20/gated_attention, arXiv 2505.06708.
#pragma once

#include <array>

#include "experiments/model/decoder.h"

namespace tare {

inline constexpr std::string_view kQNorm = "self_attn.q_norm.weight", kKNorm = "self_attn.k_norm.weight";
inline std::vector<int64_t> HeadDimShape(const ModelConfig& c) { return {c.head_dim}; }
inline constexpr auto kQkNormVectors =
    std::to_array<VectorPlace>({{kQNorm, HeadDimShape, 1, 0}, {kKNorm, HeadDimShape, 1, 0}});

}  // namespace tare
