// SPDX-License-Identifier: Apache-2.0
// quant_method fp8: Qwen's and DeepSeek's folders (transformers' FineGrainedFP8), Devstral, AutoFP8. For W [out, in]:
//
//   X.weight                              E4M3 [out, in]
//   X.weight_scale_inv or X.weight_scale  f32, f16, bf16 or E8M0: one, or with weight_block_size [b, c] one for each
//                                         block, [ceil(out / b), ceil(in / c)]; the last blocks may be short
//   X.input_scale or X.activation_scale   one, of the inputs, where activation_scheme is static
//
//   W = code * scale
//
// Without the key weight_block_size, one scale is the tensor's, and several are of blocks of 128 by 128, transformers'
// default.

#include "quant/interchange/folders/compressed_tensors.h"

namespace tare {
namespace {

using Strategy = CompressedArguments::Strategy;

constexpr int64_t kDefaultBlock = 128, kMostInBlock = int64_t{1} << 31;

CompressedArguments Arguments(Strategy strategy) { return {.bits = 8, .is_float = true, .strategy = strategy}; }

// Inputs at run time have a scale for each token, or for as many columns of it as a block has.
CompressedArguments InputsOf(bool is_static, const CompressedArguments& weights) {
  if (is_static) return Arguments(Strategy::kTensor);
  CompressedArguments inputs = Arguments(weights.strategy == Strategy::kBlock ? Strategy::kGroup : Strategy::kToken);
  inputs.dynamic = true;
  inputs.group = weights.block[1];
  return inputs;
}

}  // namespace

ForeignModel ReadFp8(SchemeKeys& keys, ModuleTensors& tensors) {
  keys.Only("fmt", {"\"e4m3\""});
  keys.Only("activation_scheme", {"\"dynamic\"", "\"static\""});
  const bool is_static = keys.Text("activation_scheme", "dynamic") == "static";
  CompressedArguments blocks = Arguments(Strategy::kBlock);
  blocks.block = {kDefaultBlock, kDefaultBlock};
  const bool has_blocks = keys.Has("weight_block_size");
  if (has_blocks) blocks.block = keys.Two("weight_block_size", kMostInBlock, "rows and columns, two positive integers");
  const LeftModules left(keys, {"modules_to_not_convert", "ignored_layers"});
  keys.Ignore("dequantize scale_fmt kv_cache_scheme kv_cache_quant_method");  // tensors have their own types
  const bool says_whole = keys.SaysNull("weight_block_size");
  keys.RefuseOthers();
  const auto group = [&](const CompressedArguments& weights) {
    return CompressedGroup{
        .name = {}, .format = "float-quantized", .weights = weights, .inputs = InputsOf(is_static, weights)};
  };
  const CompressedGroup of_blocks = group(blocks), of_whole = group(Arguments(Strategy::kTensor));
  const std::string scale = tensors.ModulesWith("weight_scale_inv").empty() ? "weight_scale" : "weight_scale_inv";
  const bool has_caches = !tensors.ModulesWith("k_scale").empty() || !tensors.ModulesWith("kv_scale").empty();
  const auto caches = has_caches ? std::optional(Arguments(Strategy::kTensor)) : std::nullopt;
  return ReadScaledModules(
      [&](const std::string& module) -> const CompressedGroup& {
        left.RequireCodes(module, keys.where(), tensors);
        const TensorView* const stored = tensors.Find(module, scale);
        const bool is_one = stored != nullptr && stored->elements() == 1;
        return says_whole || (!has_blocks && is_one) ? of_whole : of_blocks;
      },
      {.where = keys.where(), .tool = "fp8", .scale = scale, .caches = caches}, tensors);
}

}  // namespace tare
