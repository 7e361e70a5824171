// SPDX-License-Identifier: Apache-2.0
// AutoRound's own configuration, quant_method "auto-round". It packs as others do, and packing_format says which:
//
//   auto_round:auto_gptq          as GPTQ, zero points stored less one
//   auto_round, auto_round:gptqmodel  as GPTQ, zero points as they are
//   auto_round:auto_awq           as AWQ
//
// extra_config overrides bits, group_size and sym of modules, by name or by a regular expression.
#include "quant/interchange/folders/quantization_config.h"

#include <algorithm>
#include <utility>

#include "quant/base/message.h"
#include "quant/interchange/folders/gptq.h"

namespace tare {
namespace {

// Inputs stay as they are, and nothing is rotated.
void RequireWeightsOnly(SchemeKeys& keys) {
  keys.Only("data_type", {"\"int\"", "\"int_sym\"", "\"int_asym\""});
  keys.Only("act_bits", {"16", "32"});
  keys.Ignore("act_data_type act_group_size act_sym act_dynamic");    // of 16 bits
  keys.Ignore("static_attention_granularity static_kv_granularity");  // of what is refused below
  for (const char* key : {"super_bits", "super_group_size", "rotation_config", "rotation_configs",
                          "static_attention_dtype", "static_kv_dtype"})
    keys.Only(key, {});
}

// Exact names first, then the first pattern that is found in the name; 16 bits: the module is as it was.
SettingsOfModule ReadExtraSettings(SchemeKeys& keys, const GptqSettings& all) {
  std::map<std::string, std::optional<GptqSettings>> named;
  std::vector<std::pair<NamePattern, std::optional<GptqSettings>>> rules;
  for (const auto& [key, value] : keys.Object("extra_config", "an object of modules").items()) {
    SchemeKeys own(value, Formatted("{}: extra_config: '{}'", keys.where(), key));
    std::optional<GptqSettings> settings;
    if (own.Integer("bits", 2, 32, all.bits) < 16) {
      settings = ReadGptqSettings(own, all);
      RequireWeightsOnly(own);
      own.RefuseOthers();
    }
    if (key.find_first_of("*+?^$|()[]\\{}") == key.npos) named.emplace(key, settings);
    rules.emplace_back(NamePattern(key, own.where()), settings);
  }
  return [all, named, rules](const std::string& module) {
    if (const auto exact = named.find(module); exact != named.end()) return exact->second;
    const auto rule = std::ranges::find_if(rules, [&](const auto& one) { return one.first.MatchesSomewhere(module); });
    return rule == rules.end() ? std::optional(all) : rule->second;
  };
}

}  // namespace

ForeignModel ReadAutoRound(SchemeKeys& keys, ModuleTensors& tensors) {
  for (const char* key : {"packing_format", "backend"})
    keys.Only(key, {"\"auto_round\"", "\"auto_round:gptqmodel\"", "\"auto_round:auto_gptq\"", "\"auto_round:gptq\"",
                    "\"auto_round:exllamav2\"", "\"auto_round:gptq:exllamav2\"", "\"auto_round:auto_awq\"",
                    "\"auto_round:awq\""});
  const std::string packing = keys.Text("packing_format", keys.Text("backend", "auto_round:auto_gptq"));
  keys.Integer("bits", 2, 8);  // not left out
  const GptqSettings all = ReadGptqSettings(keys, {.tool = "AutoRound"});
  const SettingsOfModule settings = ReadExtraSettings(keys, all);
  RequireWeightsOnly(keys);
  // How it was found, and what runs it.
  keys.Ignore(
      "autoround_version block_name_to_quantize to_quant_block_names quant_block_list iters lr minmax_lr "
      "nsamples seqlen batch_size dataset low_gpu_mem_usage amp enable_alg_ext gradient_accumulate_steps "
      "enable_quanted_input enable_minmax_tuning enable_norm_bias_tuning damp_percent true_sequential desc_act "
      "scale_dtype supported_types quant_lm_head low_cpu_mem_usage enable_torch_compile momentum "
      "not_use_best_mse dynamic_max_gap inner_support_types ignore_layers lm_head algs");
  keys.RefuseOthers();
  ForeignModel model;
  if (packing.contains("awq")) {
    ReadAwqMatrices(settings, keys.where(), tensors, model);
  } else {
    const StoredZeros configured =
        packing.contains(":auto_gptq") || packing.contains(":gptq:") || packing.ends_with(":gptq")
            ? StoredZeros::kLessOne
            : StoredZeros::kAsTheyAre;
    ReadGptqMatrices(settings, configured, keys.where(), tensors, model);
  }
  return model;
}

}  // namespace tare
