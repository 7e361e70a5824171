// SPDX-License-Identifier: Apache-2.0
// AutoRound's own configuration, quant_method "auto-round". It packs as others do, and packing_format says which:
//
//   auto_round:auto_gptq          as GPTQ, zero points stored less one
//   auto_round, auto_round:gptqmodel  as GPTQ, zero points as they are
//   auto_round:auto_awq           as AWQ
//
// extra_config overrides bits, group_size and sym of modules, by name or by a regular expression.
#include "quant/interchange/folders/quantization_config.h"

#include <map>
#include <utility>

#include "quant/base/formatted.h"
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
class ExtraSettings {
 public:
  ExtraSettings(SchemeKeys& keys, GptqSettings all) : all_(std::move(all)) {
    const Json* extra = keys.Find("extra_config");
    if (extra == nullptr) return;
    if (!extra->is_object()) keys.Wrong("extra_config", "an object of modules");
    for (const auto& [key, value] : extra->items()) {
      SchemeKeys own(value, Formatted("{}: extra_config: '{}'", keys.where(), key));
      const bool leaves = own.Integer("bits", 2, 32, all_.bits) >= 16;
      std::optional<GptqSettings> settings;
      if (!leaves) {
        settings = ReadGptqSettings(own, all_);
        RequireWeightsOnly(own);
        own.RefuseOthers();
      }
      if (key.find_first_of("*+?^$|()[]\\{}") == key.npos) named_.emplace(key, settings);
      rules_.emplace_back(NamePattern(key, own.where()), settings);
    }
  }

  std::optional<GptqSettings> operator()(const std::string& module) const {
    if (const auto found = named_.find(module); found != named_.end()) return found->second;
    for (const auto& [pattern, settings] : rules_) {
      if (pattern.MatchesSomewhere(module)) return settings;
    }
    return all_;
  }

 private:
  GptqSettings all_;
  std::map<std::string, std::optional<GptqSettings>> named_;
  std::vector<std::pair<NamePattern, std::optional<GptqSettings>>> rules_;
};

}  // namespace

ForeignModel ReadAutoRound(SchemeKeys& keys, ModuleTensors& tensors) {
  for (const char* key : {"packing_format", "backend"})
    keys.Only(key, {"\"auto_round\"", "\"auto_round:gptqmodel\"", "\"auto_round:auto_gptq\"", "\"auto_round:gptq\"",
                    "\"auto_round:exllamav2\"", "\"auto_round:gptq:exllamav2\"", "\"auto_round:auto_awq\"",
                    "\"auto_round:awq\""});
  const std::string packing = keys.Text("packing_format", keys.Text("backend", "auto_round:auto_gptq"));
  keys.Integer("bits", 2, 8);  // not left out
  const GptqSettings all = ReadGptqSettings(keys, {.tool = "AutoRound"});
  const ExtraSettings settings(keys, all);
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
