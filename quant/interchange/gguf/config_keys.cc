// SPDX-License-Identifier: Apache-2.0
#include "quant/interchange/gguf/architecture.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "quant/base/message.h"
#include "quant/file/dtype.h"

namespace tare::gguf {
namespace {

constexpr std::string_view kLlama3 = "rope_freqs.weight", kShort = "rope_factors_short.weight",
                           kLong = "rope_factors_long.weight";

// The divisors, one for each pair of channels that turn.
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
  if (factor < 1)
    Fail("{}: {}: got {}, expected at least 1 for yarn", keys.where(), keys.Name("rope.scaling.factor"), factor);
  Json yarn{{"rope_type", "yarn"},
            {"factor", factor},
            {"original_max_position_embeddings", keys.Need("rope.scaling.original_context_length")},
            {"truncate", keys.Flag("rope.scaling.yarn_truncate").value_or(a.family != "gpt_oss")}};
  for (const auto& [theirs, ours] : {std::pair("yarn_beta_fast", "beta_fast"), std::pair("yarn_beta_slow", "beta_slow"),
                                     std::pair("yarn_attn_factor", "attention_factor")}) {
    if (const auto value = keys.Real(std::string("rope.scaling.") + theirs)) yarn[ours] = *value;
  }
  // In gemma3 llama.cpp applies this to layers with a window, too; no configuration says so, and the key is refused.
  if (const auto more = a.Has(kNormsAddOne) ? std::nullopt : keys.Real("rope.scaling.attn_factor"))
    yarn["attention_factor"] = *more * yarn.value("attention_factor", 0.1 * std::log(factor) + 1);
  return yarn;
}

// Each f32's shortest number that is read as the same f32.
Json NumbersOf(const std::vector<float>& values) {
  Json numbers = Json::array();
  for (const float value : values) numbers.push_back(*ParseNumber<double>(Formatted("{}", value)));
  return numbers;
}

// The scaling by keys alone; null if not scaled.
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

double DivisorFor(const RotaryFactors& r, double waves) {
  if (waves > r.high / r.original) return 1;
  if (waves < r.low / r.original) return r.factor;
  const double s = (r.original * waves - r.low) / (r.high - r.low);
  return 1 / ((1 - s) / r.factor + s);
}

bool Makes(const RotaryFactors& r, std::span<const float> divisors, const std::vector<double>& waves) {
  constexpr double kNear = 1e-5;  // the converter computes in f32
  for (size_t i = 0; i < divisors.size(); ++i) {
    const double expected = DivisorFor(r, waves[i]);
    if (!(std::abs(static_cast<double>(divisors[i]) - expected) <= kNear * expected)) return false;
  }
  return true;
}

// The factors from two divisors between 1 and the factor: s is a line over waves per token.
std::optional<RotaryFactors> Solved(double factor, std::span<const float> divisors, const std::vector<double>& waves) {
  std::vector<std::pair<double, double>> between;  // waves per token, s
  for (size_t i = 0; i < divisors.size(); ++i) {
    const double f = divisors[i];
    if (f > 1 && f < factor) between.emplace_back(waves[i], (1 / f - 1 / factor) / (1 - 1 / factor));
  }
  if (between.size() < 2) return std::nullopt;
  const auto [x0, s0] = between.front();
  const auto [x1, s1] = between.back();
  const double slope = (s1 - s0) / (x1 - x0), at_zero = s0 - slope * x0;  // original / (high - 1), -1 / (high - 1)
  RotaryFactors r{.factor = factor, .low = 1, .high = 1 - 1 / at_zero, .original = -slope / at_zero};
  r.original = std::round(r.original);  // of tokens
  if (const double nearest = std::round(r.high * 1024) / 1024; std::abs(nearest - r.high) < 1e-3 * r.high)
    r.high = nearest;
  return r;
}

constexpr std::string_view kWindow = "attention.sliding_window", kPattern = "attention.sliding_window_pattern";

// Every `period`-th layer sees all keys, or those that a list does not mark.
void AddWindows(int64_t period, ArchitectureKeys& keys, Json& config) {
  config["sliding_window"] = keys.Need(kWindow);
  if (!keys.IsArray(kPattern))
    return keys.Expect(kPattern, period, "the period of layers that see all keys (others are not supported)");
  config["layer_types"] = Json::array();
  for (const double slides : keys.Reals(kPattern, config["num_hidden_layers"]))
    config["layer_types"].push_back(slides != 0 ? "sliding_attention" : "full_attention");
}

void AddGemma(ArchitectureKeys& keys, Json& config) {
  constexpr int64_t kLayersOf27B = 62;
  const int64_t layers = config["num_hidden_layers"], hidden = config["hidden_size"];
  config["query_pre_attn_scalar"] = layers == kLayersOf27B ? hidden / config["num_attention_heads"].get<int64_t>()
                                                           : config["head_dim"].get<int64_t>();
  if (const auto cap = keys.Real("final_logit_softcapping")) config["final_logit_softcapping"] = *cap;
  config["rope_local_base_freq"] = keys.Real("rope.freq_base_swa").value_or(10000);
  const int64_t window = keys.Number(kWindow).value_or(0);
  config["sliding_window_pattern"] = window == 0 ? 1 : 6;
  if (window == 0) return keys.Ignore(kPattern);
  config["sliding_window"] = window;
  if (keys.IsArray(kPattern)) return AddWindows(6, keys, config);
  if (const auto period = keys.Number(kPattern)) config["sliding_window_pattern"] = *period;
}

void AddGranite(ArchitectureKeys& keys, Json& config) {
  const auto multiplier = [&](std::string_view key, double otherwise) {
    const double value = keys.Real(key).value_or(0);
    return value != 0 ? value : otherwise;  // llama.cpp's word for "not said"
  };
  if (!keys.Flag("rope.scaling.finetuned").value_or(true))
    Fail("{}: {}: got false, by which llama.cpp leaves rotary positions out, expected true (others are not supported)",
         keys.where(), keys.Name("rope.scaling.finetuned"));
  config["attention_multiplier"] = multiplier("attention.scale", 1 / std::sqrt(config["head_dim"].get<double>()));
  config["embedding_multiplier"] = multiplier("embedding_scale", 1);
  config["residual_multiplier"] = multiplier("residual_scale", 1);
  config["logits_scaling"] = multiplier("logit_scale", 1);
}

void AddExperts(const Architecture& a, ArchitectureKeys& keys, Json& config) {
  const int64_t width = keys.Number("expert_feed_forward_length").value_or(config["intermediate_size"]);
  const bool is_qwen = a.family == "qwen3_moe";
  constexpr int64_t kMostExperts = 16384;  // as of config.json
  const int64_t experts = keys.Need("expert_count");
  if (experts > kMostExperts)
    Fail("{}: {}: got {}, expected at most {}", keys.where(), keys.Name("expert_count"), experts, kMostExperts);
  config[is_qwen ? "num_experts" : "num_local_experts"] = experts;
  config["num_experts_per_tok"] = keys.Need("expert_used_count");
  config[is_qwen ? "moe_intermediate_size" : "intermediate_size"] = width;
  if (is_qwen) config["norm_topk_prob"] = true;
  keys.Expect("expert_shared_count", 0, "shared experts are not supported");
  constexpr int64_t kSoftmax = 1;
  if (a.family != "gpt_oss") keys.Expect("expert_gating_func", kSoftmax, "a softmax (others are not supported)");
}

}  // namespace

std::optional<RotaryFactors> FindRotaryFactors(std::span<const float> divisors, double theta) {
  if (divisors.empty() || !(theta > 1)) return std::nullopt;
  std::vector<double> waves;  // per token, of each frequency
  for (double i = 0, count = static_cast<double>(divisors.size()); i < count; ++i)
    waves.push_back(std::pow(theta, -i / count) / (2 * std::numbers::pi));
  const double factor = *std::ranges::max_element(divisors);
  if (!std::isfinite(factor) || !(factor > 1)) return std::nullopt;
  const RotaryFactors usual{.factor = factor};  // of Llama 3.1, 3.2 and 3.3
  if (Makes(usual, divisors, waves)) return usual;
  // Few frequencies may leave several answers, which compute the same: the first.
  for (double original = 2; original <= 1 << 24; original *= 2) {
    const RotaryFactors like{.factor = factor, .original = original};
    if (Makes(like, divisors, waves)) return like;
  }
  const std::optional<RotaryFactors> solved = Solved(factor, divisors, waves);
  return solved && solved->high > solved->low && solved->original >= 1 && Makes(*solved, divisors, waves)
             ? solved
             : std::nullopt;
}

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
    scaling = {{"rope_type", "longrope"},
               {"short_factor", NumbersOf(DivisorsOf(*by_short, pairs, keys.where()))},
               {"long_factor", NumbersOf(DivisorsOf(*by_long, pairs, keys.where()))},
               {"attention_factor", keys.Real("rope.scaling.attn_factor").value_or(1)}};
  }
  if (divisors != nullptr) scaling = Llama3Of(*divisors, pairs, theta, keys.where());
  if (scaling.is_null() && a.family == "gpt_oss") scaling = {{"rope_type", "default"}};  // whose config.json means yarn
  if (!scaling.is_null()) config["rope_scaling"] = scaling;
}

void AddFamilyKeys(const Architecture& a, ArchitectureKeys& keys, Json& config) {
  if (a.Has(kExperts)) AddExperts(a, keys, config);
  for (const char* key : {"expert_count", "expert_used_count"}) {
    if (!a.Has(kExperts)) keys.Expect(key, 0, "experts are not supported in this architecture");
  }
  if (a.family == "gemma3_text") AddGemma(keys, config);
  if (a.family == "granite") AddGranite(keys, config);
  if (a.family == "olmo3") AddWindows(4, keys, config);
  if (a.family == "olmo2") keys.Expect(kWindow, 0, "a window makes it an olmo3");
  if (a.family == "gpt_oss") AddWindows(2, keys, config);
  if (const int64_t window = a.family == "phi3" ? keys.Number(kWindow).value_or(0) : 0; window > 0)
    config["sliding_window"] = window;
}

}  // namespace tare::gguf
