// SPDX-License-Identifier: Apache-2.0
// Names of whole plans.
//
// "int8", "int6" and "int4" make the whole model low-bit and executed. Inputs of linear layers stay at 8 bits with one
// scale per token (W8A8, W6A8, W4A8); weights, q, k, v and the probabilities have as many bits as the name says.
//
// The others are recipes of the literature, simulated (int-flash executed, too): the arithmetic of public code at one
// commit, as near as rules come to it, with what differs in words. All of them differ in two ways. A row's maximum is
// the final one, where a kernel takes the running one of its tiles; and sums are f32. Recipes for caches are rules for
// `k` and `v`, which round every token, so that all recipes meet the same prompt; none keeps the newest tokens.
//
// A head with two maps takes the recipe once per map: each map has its own scales and means of q and k, its own maximum
// and sum, and V is rounded once for both (late order).
#pragma once

#include <array>
#include <string_view>

#include "quant/base/find_in.h"

namespace tare {

struct PlanPreset {
  std::string_view name, rules;   // in canonical form
  std::string_view source, note;  // of a recipe: repository and commit, and what differs there
};

inline constexpr auto kPlanPresets = std::to_array<PlanPreset>({
    {"int8",
     "weights=int8/channel,linear_in=int8/token,q=int8/token,k=int8/token,probs=u8/block64,v=int8/block64.channel", "",
     ""},
    {"int6",
     "weights=int6/channel,linear_in=int8/token,q=int6/token,k=int6/token,probs=u6/block64,v=int6/block64.channel", "",
     ""},
    {"int4",
     "weights=int4/channel,linear_in=int8/token,q=int4/token,k=int4/token,probs=u4/block64,v=int4/block64.channel", "",
     ""},
    {"sage1", "q=int8/tokens128,k=int8/tokens64+smoothall",
     "SageAttention (arXiv 2410.02367), thu-ml/SageAttention d1a57a5, Triton",
     "there probabilities, values and their sums are f16, and ties are rounded away from 0"},
    {"sage2",
     "q=int8/tokens32.by8,k=int8/tokens64.by4x2+smoothall,v=fp8e4m3/channel,"
     "probs=fp8e4m3/row+top447.89+unnormalized",
     "SageAttention2 (arXiv 2411.10958), thu-ml/SageAttention d1a57a5, sm89",
     "there 1e-7 is added to scales of q and k, whose ties are rounded away from 0"},
    {"sage2pp",
     "q=int8/tokens32.by8,k=int8/tokens64.by4x2+smoothall,v=fp8e4m3/channel+top2.25,"
     "probs=fp8e4m3/row+top447.89+unnormalized",
     "SageAttention2++ (arXiv 2505.21136), thu-ml/SageAttention d1a57a5, sm89",
     "as sage2; there sums of 64 keys are f16"},
    {"sage2-paper",
     "q=int4/tokens32.by8+smooth128,k=int4/tokens64.by4x2+smoothall,v=fp8e4m3/channel,"
     "probs=fp8e4m3/row+top447.89+unnormalized",
     "SageAttention2 (arXiv 2411.10958), section 3",
     "the paper's int4 and means of queries, by the scales of sage2; its code has neither"},
    {"sage3", "q=nvfp4:t1+smooth128,k=nvfp4:t1+smoothall,v=nvfp4:t1,probs=nvfp4/row+unnormalized",
     "SageAttention3 (arXiv 2505.11594), thu-ml/SageAttention d1a57a5, sageattention3_blackwell",
     "there means and their products are of 16 bits, and a causal mask loses keys"},
    {"fa3-fp8", "q=fp8e4m3/head,k=fp8e4m3/head,v=fp8e4m3/head,probs=fp8e4m3/row+top256+unnormalized",
     "FlashAttention-3 (arXiv 2407.08608), Dao-AILab/flash-attention 0251105",
     "there one scale of q serves all query heads of a KV head; rotation and scales of blocks are not in its code"},
    {"int-flash", "q=int8/token,k=int8/token,v=int8/head,probs=u8/row+top127+unnormalized",
     "INT-FlashAttention (arXiv 2409.16997), INT-FlashAttention2024/INT-FlashAttention 7f7bfb0",
     "there probabilities are rounded up at ties, in f16"},
    {"torchao-int8",
     "q=int8/tensor+zero,k=int8/tensor+zero,v=int8/tensor+zero,probs=u8/tensor+unnormalized,head_out=int8/tensor+zero",
     "pytorch/ao 36027d8, quantized_sdpa.cpp",
     "there scales are static, of an observer; a differential head is rounded once, after its maps are subtracted"},
    {"kivi2", "k=int2/block32.channel+min,v=int2/group32+min", "KIVI (arXiv 2402.02750), jy-yuan/KIVI 876b4d2",
     "there scales and minima are f16, and the newest tokens stay unrounded"},
    {"kivi4", "k=int4/block32.channel+min,v=int4/group32+min", "KIVI (arXiv 2402.02750), jy-yuan/KIVI 876b4d2",
     "there scales and minima are f16, and the newest tokens stay unrounded"},
    {"kvquant3", "k=normal3/channel+mean+outliers1+prerotary,v=normal3/token+mean+outliers1",
     "KVQuant (arXiv 2401.18079), SqueezeAILab/KVQuant 57a2383",
     "the nearest plan: there levels and thresholds are calibrated, scales are ranges, and values of all heads share "
     "one"},
    {"turboquant3", "k=normal3/token+hadamard,v=int3/token+min",
     "TurboQuant (arXiv 2504.19874), vllm-project/vllm 0135d08, 3bit_nc",
     "the nearest plan: there signs of the rotation, ties and levels differ, keys also get their norms back, norms and "
     "minima are f16, and four layers are skipped"},
    {"turboquant4", "k=normal4/token+hadamard,v=int4/token+min",
     "TurboQuant (arXiv 2504.19874), vllm-project/vllm 0135d08, 4bit_nc", "the nearest plan: as turboquant3"},
    {"vllm-fp8", "k=fp8e4m3/tensor+top200,v=fp8e4m3/tensor+top100", "vllm-project/vllm 0f25e05, calculate_kv_scales",
     "there the first prompt sets the scales; on CPUs it truncates"},
    {"mr-gptq-nvfp4", "weights=nvfp4+hadamard16,linear_in=nvfp4+hadamard16",
     "MR-GPTQ (arXiv 2509.23202), IST-DASLab/FP-Quant d2e3092",
     "weights are rounded to nearest; tare quantize --method gptq rounds them by GPTQ. There the rotation has no "
     "signs"},
});

constexpr const PlanPreset* FindPreset(std::string_view name) { return FindIn(kPlanPresets, name, &PlanPreset::name); }

// The name of the preset that a plan's canonical text is; empty if none.
constexpr std::string_view PresetName(std::string_view canonical) {
  const PlanPreset* const preset = FindIn(kPlanPresets, canonical, &PlanPreset::rules);
  return preset == nullptr ? "" : preset->name;
}

// The recipe that it is; null if none.
constexpr const PlanPreset* RecipeOf(std::string_view canonical) {
  const PlanPreset* const preset = FindPreset(PresetName(canonical));
  return preset == nullptr || preset->source.empty() ? nullptr : preset;
}

// How tables show a plan: by the name of the recipe that it is, or by its canonical text.
constexpr std::string_view ShownName(std::string_view canonical) {
  const PlanPreset* const recipe = RecipeOf(canonical);
  return recipe == nullptr ? canonical : recipe->name;
}

}  // namespace tare
