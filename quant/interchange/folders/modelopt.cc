// SPDX-License-Identifier: Apache-2.0
// NVIDIA's ModelOpt: its hf_quant_config.json, or a quantization_config whose producer it is. For W [out, in]:
//
//   FP8                        X.weight E4M3; X.weight_scale f32, one
//   FP8_PER_CHANNEL_PER_TOKEN  the same, X.weight_scale [out]
//   NVFP4, W4A16_NVFP4         X.weight u8 [out, in / 2], neighbours in a byte, the first low; X.weight_scale E4M3
//                              [out, in / 16]; X.weight_scale_2 f32, which multiplies it
//   MXFP8                      X.weight E4M3; X.weight_scale E8M0 [out, in / 32]
//
//   W = code * scale
//
// MIXED_PRECISION has these by module, in quantized_layers. X.input_scale is of inputs, X.k_scale and X.v_scale of
// caches. Source: modelopt, torch/export/convert_hf_config.py and torch/quantization/qtensor/.
#include <map>

#include "quant/base/find_in.h"
#include "quant/base/message.h"
#include "quant/interchange/folders/compressed_tensors.h"

namespace tare {
namespace {

using Strategy = CompressedArguments::Strategy;

constexpr CompressedArguments Floats(int bits, Strategy strategy, int64_t group = 0, bool dynamic = false) {
  return {.bits = bits, .is_float = true, .dynamic = dynamic, .strategy = strategy, .group = group};
}

// What each algorithm stores, and how its inputs are meant to be rounded.
const CompressedGroup* GroupOf(const std::string& algorithm) {
  constexpr CompressedArguments kWhole = Floats(8, Strategy::kTensor), kFour = Floats(4, Strategy::kTensorGroup, 16),
                                kBlocks = Floats(8, Strategy::kGroup, 32);
  static const std::map<std::string, CompressedGroup> kGroups{
      {"FP8", {.name = {}, .format = "float-quantized", .weights = kWhole, .inputs = kWhole}},
      {"FP8_PER_CHANNEL_PER_TOKEN",
       {.name = {},
        .format = "float-quantized",
        .weights = Floats(8, Strategy::kChannel),
        .inputs = Floats(8, Strategy::kToken, 0, true)}},
      {"NVFP4", {.name = {}, .format = "nvfp4-pack-quantized", .weights = kFour, .inputs = kFour}},
      {"W4A16_NVFP4", {.name = {}, .format = "nvfp4-pack-quantized", .weights = kFour, .inputs = {}}},
      {"MXFP8", {.name = {}, .format = "mxfp8-quantized", .weights = kBlocks, .inputs = kBlocks}}};
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

  const CompressedGroup* Of(const std::string& module) const {
    const auto found = by_module.find(module);
    return found == by_module.end() ? all : found->second;
  }
};

}  // namespace

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
        if (const CompressedGroup* group = config.Of(module)) return *group;
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

}  // namespace tare
