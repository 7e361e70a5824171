// SPDX-License-Identifier: Apache-2.0
// Methods whose codes are floats: fp8 and ModelOpt's in the words of compressed-tensors, and mxfp4. For W [out, in],
//
//   W = code * scale
#include <algorithm>
#include <cmath>
#include <map>

#include "quant/base/find_in.h"
#include "quant/base/message.h"
#include "quant/format/pack.h"
#include "quant/interchange/folders/compressed_tensors.h"

namespace tare {
namespace {

using Strategy = CompressedArguments::Strategy;

constexpr CompressedArguments Floats(int bits, Strategy strategy, int64_t group = 0, bool dynamic = false) {
  return {.bits = bits, .is_float = true, .dynamic = dynamic, .strategy = strategy, .group = group};
}

// ---- quant_method fp8: Qwen's and DeepSeek's folders (transformers' FineGrainedFP8), Devstral, AutoFP8:
//
//   X.weight                              E4M3 [out, in]
//   X.weight_scale_inv or X.weight_scale  f32, f16, bf16 or E8M0: one, or with weight_block_size [b, c] one for each
//                                         block, [ceil(out / b), ceil(in / c)]; the last blocks may be short
//   X.input_scale or X.activation_scale   one, of the inputs, where activation_scheme is static
//
// Without weight_block_size one scale is the tensor's, several are of blocks of 128 by 128 (transformers' default).

constexpr int64_t kDefaultBlock = 128, kMostInBlock = int64_t{1} << 31;

// Inputs at run time have a scale for each token, or for as many columns of it as a block has.
CompressedArguments InputsOf(bool is_static, const CompressedArguments& weights) {
  if (is_static) return Floats(8, Strategy::kTensor);
  return Floats(8, weights.strategy == Strategy::kBlock ? Strategy::kGroup : Strategy::kToken, weights.block[1], true);
}

// ---- NVIDIA's ModelOpt: its hf_quant_config.json, or a quantization_config whose producer it is:
//
//   FP8                        X.weight E4M3; X.weight_scale f32, one
//   FP8_PER_CHANNEL_PER_TOKEN  the same, X.weight_scale [out]
//   NVFP4, W4A16_NVFP4         X.weight u8 [out, in / 2], neighbours in a byte, the first low; X.weight_scale E4M3
//                              [out, in / 16]; X.weight_scale_2 f32, which multiplies it
//   MXFP8                      X.weight E4M3; X.weight_scale E8M0 [out, in / 32]
//
// MIXED_PRECISION has these by module, in quantized_layers. X.input_scale is of inputs, X.k_scale and X.v_scale of
// caches. Source: modelopt, torch/export/convert_hf_config.py and torch/quantization/qtensor/.

// What each algorithm stores, and how its inputs are meant to be rounded.
const CompressedGroup* GroupOf(const std::string& algorithm) {
  constexpr CompressedArguments kWhole = Floats(8, Strategy::kTensor), kFour = Floats(4, Strategy::kTensorGroup, 16),
                                kBlocks = Floats(8, Strategy::kGroup, 32);
  static const std::map<std::string, CompressedGroup> kGroups{
      {"FP8", {"float-quantized", kWhole, kWhole}},
      {"FP8_PER_CHANNEL_PER_TOKEN",
       {"float-quantized", Floats(8, Strategy::kChannel), Floats(8, Strategy::kToken, 0, true)}},
      {"NVFP4", {"nvfp4-pack-quantized", kFour, kFour}},
      {"W4A16_NVFP4", {"nvfp4-pack-quantized", kFour, {}}},
      {"MXFP8", {"mxfp8-quantized", kBlocks, kBlocks}}};
  return FindIn(kGroups, algorithm);
}

// The group of an object's quant_algo; null where it has none: only caches are meant to be rounded.
const CompressedGroup* ReadAlgorithm(SchemeKeys& keys) {
  keys.Ignore("group_size");
  if (!keys.Has("quant_algo")) return nullptr;
  const CompressedGroup* const group = GroupOf(keys.Text("quant_algo"));
  if (group == nullptr)
    keys.Wrong("quant_algo", "FP8, FP8_PER_CHANNEL_PER_TOKEN, NVFP4, W4A16_NVFP4 or MXFP8: others are not supported");
  if (group->weights.group > 0) keys.Integer("group_size", group->weights.group, group->weights.group, 0);
  for (const char* key : {"has_zero_point", "pre_quant_scale"}) keys.Only(key, {"false"});
  return group;
}

// kv_cache_quant_algo, or kv_cache_scheme: a name, or an object with bits and type.
std::optional<CompressedArguments> ReadCacheScheme(SchemeKeys& keys) {
  const Json *name = keys.Find("kv_cache_quant_algo"), *scheme = keys.Find("kv_cache_scheme");
  if (name == nullptr) name = scheme;
  if (name == nullptr || *name == "NONE") return std::nullopt;
  CompressedArguments caches = Floats(8, Strategy::kTensor);
  if (name->is_object()) {
    SchemeKeys own(*name, keys.where() + ": kv_cache_scheme");
    caches.bits = static_cast<int>(own.Integer("num_bits", 1, 16));
    caches.is_float = own.Text("type", "float") == "float";
  } else {
    caches.is_float = *name != "INT8";
    if (*name == "NVFP4") caches.bits = 4;
  }
  return caches;
}

// The settings of all modules, and of those that have their own.
struct ModelOptConfig {
  const CompressedGroup* all = nullptr;
  std::map<std::string, const CompressedGroup*> by_module;

  explicit ModelOptConfig(SchemeKeys& keys) {
    const Json* const algorithm = keys.Find("quant_algo");
    if (algorithm == nullptr || *algorithm != "MIXED_PRECISION") {
      all = ReadAlgorithm(keys);
      return;
    }
    const Json* const layers = keys.Find("quantized_layers");
    if (layers == nullptr || !layers->is_object())
      Fail("{}: quantized_layers: got {}, expected an object of modules, as quant_algo is MIXED_PRECISION",
           keys.where(), layers == nullptr ? "none" : JsonText(*layers));
    for (const auto& [module, value] : layers->items()) {
      SchemeKeys own(value, Formatted("{}: quantized_layers: {}", keys.where(), module));
      by_module[module] = ReadAlgorithm(own);
      own.RefuseOthers();
    }
  }
};

// ---- All experts of a layer in one tensor; for X in gate_up_proj and down_proj, of blocks of 32 or 16 columns:
//
//   mxfp4            X_blocks [experts, out, in / 32, 16]   u8, two codes of E2M1 each, the lower four bits first
//                    X_scales [experts, out, in / 32]       E8M0
//   modelopt_nvfp4   X [experts, out, in / 2]               as X_blocks
//                    X_weight_scale [experts, out, in / 16] E4M3
//                    X_weight_scale_2 [experts]             f32, f16 or bf16, which multiplies it
//
// become the matrix X.weight, or X, [experts out, in]. A block's value is E2M1 times its scale; of mxfp4, gpt-oss as
// OpenAI publishes it, 2^(scale - 127), exact in f32. The other is Motif-3's.
// Source: transformers, integrations/mxfp4.py; the vendor's quantizer, motif_nvfp4_quantize_ckpt.py.

struct StackedLayout {
  std::string_view scheme, codes, scales, second, name;  // what follows X in the tensors' names, and the matrix's
  int64_t columns;
  std::initializer_list<DType> types;  // of scales
};
constexpr std::initializer_list<DType> kE4M3{DType::kF8E4M3};
constexpr StackedLayout kMxfp4{"gpt-oss mxfp4", "_blocks", "_scales", "", ".weight", 32, kE8M0Types},
    kNvFp4Experts{"ModelOpt nvfp4/group16", "", "_weight_scale", "_weight_scale_2", "", 16, kE4M3};

GroupedParts StackedParts(const std::string& module, const std::string& matrix, const StackedLayout& layout,
                          ModuleTensors& tensors) {
  const auto take = [&](std::string_view part, std::initializer_list<DType> types) {
    return &tensors.Take(module, matrix + std::string(part), types);
  };
  const TensorView &codes = *take(layout.codes, {DType::kU8}), &scales = *take(layout.scales, layout.types);
  const std::string name = Formatted("{}.{}{}", module, matrix, layout.name);
  GroupedParts parts{.name = name, .where = tensors.Where(name), .scheme = std::string(layout.scheme)};
  const int64_t bytes = layout.columns / 2;  // of a block
  const bool in_blocks = codes.shape.size() == 4 && codes.shape[3] == bytes;
  if (layout.second.empty() ? !in_blocks : codes.shape.size() != 3 || codes.shape[2] % bytes != 0)
    Fail("{}: got shape {}, expected [experts, rows, blocks, {}], or of nvfp4 [experts, rows, blocks x {}]",
         tensors.Where(codes.name), ShapeText(codes.shape), bytes, bytes);
  const int64_t experts = codes.shape[0];
  parts.out = experts * codes.shape[1];
  parts.groups = in_blocks ? codes.shape[2] : codes.shape[2] / bytes;
  parts.columns = layout.columns;
  parts.in = parts.groups * parts.columns;
  tensors.Require(scales, {experts, codes.shape[1], parts.groups}, "one for each block of " + codes.name);
  parts.codes = {.words = codes.bytes.data(), .bits = 4, .word_bytes = 1, .stream_step = parts.groups * bytes};
  parts.values = StoredValues(Format::kMxFp4);
  parts.scales = {.tensor = &scales, .row_step = parts.groups, .group_step = 1, .rows_of_factor = codes.shape[1]};
  parts.tensors = {&codes, &scales};
  if (layout.second.empty()) return parts;
  const TensorView& second = *parts.tensors.emplace_back(take(layout.second, kFloatTypes));
  tensors.Require(second, {experts}, "one for each expert of " + codes.name);
  for (int64_t i = 0; i < experts; ++i) {
    const float factor = FloatAt(second.dtype, second.bytes.data() + Bits(second.dtype) / 8 * i);
    if (!std::isfinite(factor) || factor < 0)
      Fail("{}, index {}: got {}, expected a number of 0 or more", tensors.Where(second.name), i, factor);
    parts.scales.factors.push_back(factor);
  }
  parts.scales.factor = std::ranges::max(parts.scales.factors);
  return parts;
}

ForeignModel ReadStacked(SchemeKeys& keys, const StackedLayout& layout, ModuleTensors& tensors) {
  keys.RefuseOthers();
  ForeignModel model;
  for (const std::string matrix : {"gate_up_proj", "down_proj"}) {
    const std::string scales = matrix + std::string(layout.scales), codes = matrix + std::string(layout.codes);
    for (const std::string& module : tensors.ModulesWith(layout.codes.empty() ? scales : codes))
      AddMatrix(StackedParts(module, matrix, layout, tensors), tensors, model);
    tensors.CheckNothingLeft(scales + (layout.codes.empty() ? "_2" : " " + codes));
  }
  return model;
}

}  // namespace

ForeignModel ReadFp8(SchemeKeys& keys, ModuleTensors& tensors) {
  keys.Only("fmt", {"\"e4m3\""});
  keys.Only("activation_scheme", {"\"dynamic\"", "\"static\""});
  const bool is_static = keys.Text("activation_scheme", "dynamic") == "static";
  CompressedArguments blocks = Floats(8, Strategy::kBlock);
  blocks.block = {kDefaultBlock, kDefaultBlock};
  const bool has_blocks = keys.Has("weight_block_size");
  if (has_blocks) blocks.block = keys.Two("weight_block_size", kMostInBlock, "rows and columns, two positive integers");
  const LeftModules left(keys, {"modules_to_not_convert", "ignored_layers"});
  keys.Ignore("dequantize scale_fmt kv_cache_scheme kv_cache_quant_method");  // tensors have their own types
  const bool says_whole = keys.SaysNull("weight_block_size");
  keys.RefuseOthers();
  const auto group = [&](const CompressedArguments& weights) {
    return CompressedGroup{"float-quantized", weights, InputsOf(is_static, weights)};
  };
  const CompressedGroup of_blocks = group(blocks), of_whole = group(Floats(8, Strategy::kTensor));
  const std::string scale = tensors.ModulesWith("weight_scale_inv").empty() ? "weight_scale" : "weight_scale_inv";
  const bool has_caches = !tensors.ModulesWith("k_scale").empty() || !tensors.ModulesWith("kv_scale").empty();
  const auto caches = has_caches ? std::optional(Floats(8, Strategy::kTensor)) : std::nullopt;
  return ReadScaledModules(
      [&](const std::string& module) -> const CompressedGroup& {
        left.RequireCodes(module, keys.where(), tensors);
        const TensorView* const stored = tensors.Find(module, scale);
        const bool is_one = stored != nullptr && stored->elements() == 1;
        return says_whole || (!has_blocks && is_one) ? of_whole : of_blocks;
      },
      {.where = keys.where(), .tool = "fp8", .scale = scale, .caches = caches}, tensors);
}

ForeignModel ReadModelOpt(SchemeKeys& keys, ModuleTensors& tensors) {
  if (const Json* inner = keys.Find("quantization"); inner != nullptr && inner->is_object()) {  // hf_quant_config.json
    keys.Ignore("producer");
    keys.RefuseOthers();
    SchemeKeys own(*inner, keys.where() + ": quantization");
    return ReadModelOpt(own, tensors);
  }
  const ModelOptConfig config(keys);
  const LeftModules left(keys, {"exclude_modules", "ignore"});
  const std::optional<CompressedArguments> caches = ReadCacheScheme(keys);
  keys.Ignore("producer quant_method config_groups quantized_layers");  // quant_algo says the same as its groups
  keys.RefuseOthers();
  return ReadScaledModules(
      [&](const std::string& module) -> const CompressedGroup& {
        left.RequireCodes(module, keys.where(), tensors);
        const auto own = config.by_module.find(module);
        if (const CompressedGroup* group = own == config.by_module.end() ? config.all : own->second) return *group;
        Fail("{}: got codes, but {} gives '{}' no quant_algo", tensors.Where(module), keys.where(), module);
      },
      {.where = keys.where(),
       .tool = "ModelOpt",
       .float4 = "weight",
       .second_scale = "weight_scale_2",
       .second = ModuleLayout::Second::kMultiplies,
       .caches = caches},
      tensors);
}

ForeignModel ReadMxfp4(SchemeKeys& keys, ModuleTensors& tensors) {
  keys.Ignore("modules_to_not_convert dequantize");
  return ReadStacked(keys, kMxfp4, tensors);
}

ForeignModel ReadNvFp4Experts(SchemeKeys& keys, ModuleTensors& tensors) {
  keys.Integer("group_size", 16, 16, 16);
  keys.Ignore("produced_by");
  return ReadStacked(keys, kNvFp4Experts, tensors);
}

}  // namespace tare
