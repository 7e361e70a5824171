// SPDX-License-Identifier: Apache-2.0
#include "quant/interchange/gguf/rotary_keys.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "quant/base/error.h"
#include "quant/base/formatted.h"
#include "quant/file/dtype.h"
#include "quant/interchange/gguf/rotary_factors.h"

namespace tare::gguf {
namespace {

constexpr std::string_view kLlama3 = "rope_freqs.weight", kShort = "rope_factors_short.weight",
                           kLong = "rope_factors_long.weight";

// One for each pair of channels that turn.
std::vector<float> DivisorsOf(const Tensor& tensor, int64_t pairs, const std::string& where) {
  if (tensor.type->type != TensorType::kF32 || tensor.shape != std::vector{pairs})
    Fail("{}: tensor '{}': got {} of shape {}, expected F32 of shape [{}], the pairs of channels that turn", where,
         tensor.name, tensor.type->name, ShapeText(tensor.shape), pairs);
  std::vector<float> values(static_cast<size_t>(pairs));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  if (!std::ranges::all_of(values, [](float x) { return std::isfinite(x) && x > 0; }))
    Fail("{}: tensor '{}': got values that are not positive numbers, expected divisors of frequencies", where,
         tensor.name);
  return values;
}

Json Llama3Of(const Tensor& divisors, int64_t pairs, double theta, const std::string& where) {
  const std::optional<RotaryFactors> found = FindRotaryFactors(DivisorsOf(divisors, pairs, where), theta);
  if (!found)
    Fail(
        "{}: tensor '{}': got divisors that are not those of llama3's rotary scaling, expected these (others are not "
        "supported)",
        where, divisors.name);
  return {{"rope_type", "llama3"},
          {"factor", found->factor},
          {"low_freq_factor", found->low},
          {"high_freq_factor", found->high},
          {"original_max_position_embeddings", found->original}};
}

Json YarnOf(const Architecture& a, double factor, ArchitectureKeys& keys) {
  keys.ExpectReal("rope.scaling.yarn_ext_factor", 1);
  keys.ExpectReal("rope.scaling.yarn_log_multiplier", 0);
  Json yarn{{"rope_type", "yarn"},
            {"factor", factor},
            {"original_max_position_embeddings", keys.Need("rope.scaling.original_context_length")},
            {"truncate", keys.Flag("rope.scaling.yarn_truncate").value_or(a.family != "gpt_oss")}};
  for (const auto& [theirs, ours] : {std::pair("yarn_beta_fast", "beta_fast"), std::pair("yarn_beta_slow", "beta_slow"),
                                     std::pair("yarn_attn_factor", "attention_factor")}) {
    if (const auto value = keys.Real(std::string("rope.scaling.") + theirs)) yarn[ours] = *value;
  }
  // Of gemma3 llama.cpp multiplies the layers with a window by it, too, which no configuration says: it is refused.
  if (const auto more = a.norms_add_one ? std::nullopt : keys.Real("rope.scaling.attn_factor"))
    yarn["attention_factor"] = *more * yarn.value("attention_factor", 0.1 * std::log(factor) + 1);
  return yarn;
}

// An f32's shortest number, so that it is read as the same.
Json NumbersOf(const std::vector<float>& values) {
  Json numbers = Json::array();
  for (const float value : values) numbers.push_back(*ParseNumber<double>(Formatted("{}", value)));
  return numbers;
}

Json LongRopeOf(const Tensor& by_short, const Tensor& by_long, int64_t pairs, ArchitectureKeys& keys) {
  return {{"rope_type", "longrope"},
          {"short_factor", NumbersOf(DivisorsOf(by_short, pairs, keys.where()))},
          {"long_factor", NumbersOf(DivisorsOf(by_long, pairs, keys.where()))},
          {"attention_factor", keys.Real("rope.scaling.attn_factor").value_or(1)}};
}

// By keys alone; null if not scaled.
Json ScalingByKeys(const Architecture& a, ArchitectureKeys& keys) {
  const std::string type(keys.Text("rope.scaling.type").value_or("linear"));
  const double older = keys.Real("rope.scale_linear").value_or(1);
  const double factor = keys.Real("rope.scaling.factor").value_or(older);
  keys.Ignore("rope.scaling.original_context_length");
  keys.Ignore("rope.scaling.finetuned");
  if (type == "yarn") return YarnOf(a, factor, keys);
  const bool takes_tensors = type == "longrope" && a.family == "phi3";
  if (type != "none" && type != "linear" && !takes_tensors)
    Fail("{}: {}: got '{}', expected none, linear or yarn{} (others are not supported)", keys.where(),
         keys.Name("rope.scaling.type"), Shown(type), a.family == "phi3" ? ", or longrope" : "");
  if (type == "linear" && factor != 1 && factor != 0) return {{"rope_type", "linear"}, {"factor", factor}};
  return {};
}

}  // namespace

bool IsRotary(const Architecture& a, std::string_view tensor) {
  return tensor == kLlama3 || (a.family == "phi3" && (tensor == kShort || tensor == kLong));
}

void AddRotary(const Architecture& a, std::span<const Tensor> tensors, ArchitectureKeys& keys, Json& config) {
  const double theta = keys.Real("rope.freq_base").value_or(10000);
  const int64_t pairs = keys.Number("rope.dimension_count").value_or(config["head_dim"]) / 2;
  config["rope_theta"] = theta;
  Json scaling = ScalingByKeys(a, keys);
  const Tensor *const divisors = FindTensor(tensors, kLlama3), *const by_long = FindTensor(tensors, kLong),
                      *const by_short = FindTensor(tensors, kShort);
  if (const Tensor* tensor = divisors != nullptr ? divisors : by_long; tensor != nullptr && !scaling.is_null())
    Fail("{}: tensor '{}': got rotary scaling by this and by {}, expected one of them", keys.where(), tensor->name,
         keys.Name("rope.scaling.factor"));
  if (a.family == "phi3" && (by_long != nullptr || by_short != nullptr)) {
    if (by_long == nullptr || by_short == nullptr)
      Fail("{}: tensor '{}': got one of longrope's two lists, expected {} and {}", keys.where(),
           (by_long != nullptr ? by_long : by_short)->name, kShort, kLong);
    config["original_max_position_embeddings"] = keys.Need("rope.scaling.original_context_length");
    scaling = LongRopeOf(*by_short, *by_long, pairs, keys);
  }
  if (divisors != nullptr) scaling = Llama3Of(*divisors, pairs, theta, keys.where());
  if (scaling.is_null() && a.family == "gpt_oss") scaling = {{"rope_type", "default"}};  // whose config.json means yarn
  if (!scaling.is_null()) config["rope_scaling"] = scaling;
}

}  // namespace tare::gguf
