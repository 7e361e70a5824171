// SPDX-License-Identifier: Apache-2.0
#include "quant/interchange/folders/quantization_config.h"

#include "quant/base/error.h"
#include "quant/file/json_value.h"
#include "quant/file/strict_json.h"
#include "quant/interchange/folders/awq.h"
#include "quant/interchange/folders/gptq.h"

namespace tare {
namespace {

constexpr const char* kKey = "quantization_config";

struct Method {
  std::string_view name;
  ForeignModel (*read)(SchemeKeys& keys, ModuleTensors& tensors);
};

constexpr Method kMethods[] = {
    {"gptq", ReadGptq},
    {"awq", ReadAwq},
    {"auto-round", ReadAutoRound},
    {"intel/auto-round", ReadAutoRound},
    {"compressed-tensors", ReadCompressedTensors},
    {"bitsandbytes", ReadBitsAndBytes},
    {"mxfp4", ReadMxfp4},
};

const Json* MemberOf(const Json& json, const char* key) {
  const auto found = json.is_object() ? json.find(key) : json.end();
  return found == json.end() || found->is_null() ? nullptr : &*found;
}

}  // namespace

ForeignModel ReadForeignModel(const std::string& config, const std::string& where, ModuleTensors& tensors) {
  const Json json = ParseOrderedJson(config, where);
  const Json *scheme = MemberOf(json, kKey), *mlx = MemberOf(json, "quantization");
  if (scheme != nullptr && mlx != nullptr && *scheme != *mlx)
    Fail("{}: got quantization and quantization_config, which differ; expected the same settings", where);
  if (mlx != nullptr) {
    SchemeKeys keys(*mlx, where + ": quantization");
    return ReadMlx(keys, *mlx, tensors);
  }
  if (scheme == nullptr) return {};
  SchemeKeys keys(*scheme, where + ": " + kKey);
  const std::string key = keys.Has("quant_method") || !keys.Has("method") ? "quant_method" : "method";
  keys.Ignore({"method"});
  const std::string method = keys.Text(key);
  for (const Method& known : kMethods) {
    if (method == known.name) return known.read(keys, tensors);
  }
  keys.Wrong(key, "gptq, awq, auto-round, compressed-tensors, bitsandbytes or mxfp4: others are not supported");
}

std::string WithoutQuantizationConfig(const std::string& config, const std::string& where) {
  Json json = ParseOrderedJson(config, where);
  if (!json.is_object() || (!json.contains(kKey) && !json.contains("quantization"))) return config;
  json.erase(kKey);
  json.erase("quantization");
  return JsonText(json, 2) + "\n";
}

}  // namespace tare
