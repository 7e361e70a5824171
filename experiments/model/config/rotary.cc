// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/config/rotary.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "experiments/model/config/config.h"
#include "kernels/cache/key_rotary.h"
#include "quant/base/message.h"

namespace tare {
namespace {

using Type = RotaryConfig::Type;

constexpr std::pair<std::string_view, Type> kTypes[]{
    {"default", Type::kDefault},   {"linear", Type::kLinear}, {"llama3", Type::kLlama3}, {"yarn", Type::kYarn},
    {"longrope", Type::kLongRope}, {"su", Type::kLongRope},  // as the first Phi-3 files call it
    {"dynamic", Type::kDefault}};

Type ParseType(const ConfigKeys& keys) {
  const char* key = keys.Has("rope_type") ? "rope_type" : "type";  // `type`: before transformers 4.43
  const std::string type = keys.Has(key) ? keys.Text(key) : "default";
  keys.Agree("type", keys, "rope_type");
  if (type == "dynamic") keys.Positive("factor");
  for (const auto& [name, known] : kTypes)
    if (type == name) return known;
  Fail("{}: {}: got '{}', expected default, linear, dynamic, llama3, yarn or longrope (others are not supported)",
       keys.where(), key, type);
}

// The file's own key goes before that of the object, as in transformers.
double ReadOriginal(const ConfigKeys& keys, const RotaryConfig& around, int max_positions) {
  const char* const key = "original_max_position_embeddings";
  const double own = keys.Positive(key, max_positions), before = around.original_positions;
  if (before > 0 && keys.Has(key) && own != before)
    Notice(Formatted("{}: {}: {} beside rope parameters holds, as in transformers", keys.where(), key, before));
  return before > 0 ? before : own;
}

// An object of rotary settings, which may also stand beside it. transformers reads the inner ones.
ConfigKeys RotaryObject(const ConfigKeys& keys, const char* name) {
  for (const char* setting : {"rope_theta", "partial_rotary_factor"}) keys.Agree(setting, keys.Object(name), setting);
  return keys.Object(name);
}

void ReadLlama3(const ConfigKeys& keys, RotaryConfig& rotary) {
  rotary.low_frequency_factor = keys.Positive("low_freq_factor");
  rotary.high_frequency_factor = keys.Positive("high_freq_factor");
  if (rotary.high_frequency_factor <= rotary.low_frequency_factor)
    Fail("{}: high_freq_factor: got {}, expected more than low_freq_factor {}", keys.where(),
         rotary.high_frequency_factor, rotary.low_frequency_factor);
}

void ReadYarn(const ConfigKeys& keys, RotaryConfig& rotary) {
  const double fast = keys.NotNegative("beta_fast"), slow = keys.NotNegative("beta_slow");
  if (fast > 0) rotary.fast_rotations = fast;
  if (slow > 0) rotary.slow_rotations = slow;
  if (rotary.fast_rotations <= rotary.slow_rotations)
    Fail("{}: beta_fast: got {}, expected more than beta_slow {}", keys.where(), rotary.fast_rotations,
         rotary.slow_rotations);
  if (!(rotary.original_positions > rotary.slow_rotations * 2 * std::numbers::pi))
    Fail("{}: original_max_position_embeddings: got {}, expected more than beta_slow {} turns of 2 pi", keys.where(),
         rotary.original_positions, rotary.slow_rotations);
  if (rotary.theta <= 1) Fail("{}: rope_theta: got {}, expected more than 1 for yarn", keys.where(), rotary.theta);
  rotary.truncate = keys.Flag("truncate", true);
  const double m = keys.NotNegative("mscale"), of_all = keys.NotNegative("mscale_all_dim");
  const double usual = m > 0 && of_all > 0
                           ? YarnAttentionFactor(rotary.factor, m) / YarnAttentionFactor(rotary.factor, of_all)
                           : YarnAttentionFactor(rotary.factor);
  rotary.attention_factor = keys.Positive("attention_factor", usual);
}

void ReadLongRope(const ConfigKeys& keys, int max_positions, RotaryConfig& rotary) {
  if (!(rotary.original_positions > 1))
    Fail("{}: original_max_position_embeddings: got {}, expected more than 1 for longrope", keys.where(),
         rotary.original_positions);
  rotary.short_divisors = keys.Positives("short_factor");
  rotary.long_divisors = keys.Positives("long_factor");
  for (const char* key : {"short_mscale", "long_mscale"}) keys.Refuse(key);
  rotary.factor = keys.Positive("factor", max_positions / rotary.original_positions);
  const double usual =
      rotary.factor <= 1 ? 1.0 : std::sqrt(1 + std::log(rotary.factor) / std::log(rotary.original_positions));
  rotary.attention_factor = keys.Positive("attention_factor", usual);
}

double ReadShare(const ConfigKeys& keys, double otherwise) {
  const double share = keys.Positive("partial_rotary_factor", otherwise);
  if (share > 1) Fail("{}: partial_rotary_factor: got {}, expected at most 1", keys.where(), share);
  return share;
}

float Llama3(float frequency, const RotaryConfig& c) {
  const float wavelength = 2.0f * std::numbers::pi_v<float> / frequency;
  const auto original = static_cast<float>(c.original_positions);
  const auto low = static_cast<float>(c.low_frequency_factor), high = static_cast<float>(c.high_frequency_factor);
  const auto factor = static_cast<float>(c.factor);
  if (wavelength > original / low) return frequency / factor;
  if (wavelength < original / high) return frequency;
  const float smooth = (original / wavelength - low) / (high - low);
  return (1.0f - smooth) * frequency / factor + smooth * frequency;
}

// The pair of r channels, not rounded, that turns `rotations` times within the original positions.
double PairOfRotations(double rotations, const RotaryConfig& c, int r) {
  return r * std::log(c.original_positions / (rotations * 2 * std::numbers::pi)) / (2 * std::log(c.theta));
}

// Pair `pair` of a ramp from the fast pair, kept, to the slow one, divided; its frequency unscaled is 1 / power.
float Yarn(float power, int pair, const RotaryConfig& c, int r) {
  double fast = PairOfRotations(c.fast_rotations, c, r), slow = PairOfRotations(c.slow_rotations, c, r);
  if (c.truncate) fast = std::floor(fast), slow = std::ceil(slow);
  fast = std::max(fast, 0.0), slow = std::min(slow, r - 1.0);
  if (fast == slow) slow += 0.001;
  const float ramp = (static_cast<float>(pair) - static_cast<float>(fast)) / static_cast<float>(slow - fast);
  const float kept = 1.0f - std::clamp(ramp, 0.0f, 1.0f);
  return 1.0f / (static_cast<float>(c.factor) * power) * (1.0f - kept) + 1.0f / power * kept;
}

constexpr int64_t kLongest = std::numeric_limits<int64_t>::max();

}  // namespace

std::string_view Name(Type type) {
  return std::ranges::find(kTypes, type, &std::pair<std::string_view, Type>::second)->first;
}

int PositionsReached(const RotaryConfig& rotary, int max_positions) {
  if (rotary.type != Type::kLinear && rotary.type != Type::kYarn) return max_positions;
  const double from = rotary.type == Type::kLinear ? max_positions : rotary.original_positions;
  return std::max(max_positions, static_cast<int>(std::min(from * rotary.factor, double{1 << 30})));
}

double YarnAttentionFactor(double factor, double m) { return factor <= 1 ? 1.0 : 0.1 * m * std::log(factor) + 1.0; }

RotaryConfig ReadRotary(const ConfigKeys& keys, int max_positions, const RotaryConfig& usual) {
  RotaryConfig around = usual;
  around.theta = keys.Positive("rope_theta", usual.theta);
  around.share = ReadShare(keys, usual.share);
  around.original_positions = keys.Positive("original_max_position_embeddings", usual.original_positions);
  const char* const key = "rope_parameters";
  return ReadScaling(keys, max_positions,
                     keys.Has(key) ? ReadRotaryObject(RotaryObject(keys, key), max_positions, around) : around, around);
}

RotaryConfig ReadScaling(const ConfigKeys& keys, int max_positions, const RotaryConfig& named,
                         const RotaryConfig& around) {
  if (!keys.Filled("rope_scaling")) return named;
  const RotaryConfig scaled = ReadRotaryObject(RotaryObject(keys, "rope_scaling"), max_positions, around);
  if (!keys.Has("rope_parameters") || scaled == named) return scaled;
  if (named.type != Type::kDefault || named.theta != scaled.theta || named.share != scaled.share)
    Fail(
        "{}: rope_scaling: got {} with rope_theta {}, expected what rope_parameters says, {} with rope_theta {}; try "
        "one "
        "of them, with rope_theta in it",
        keys.where(), Name(scaled.type), scaled.theta, Name(named.type), named.theta);
  return scaled;
}

RotaryConfig ReadRotaryObject(const ConfigKeys& parameters, int max_positions, const RotaryConfig& around) {
  for (const char* by_layer : {"full_attention", "sliding_attention"}) parameters.Refuse(by_layer);
  RotaryConfig rotary = around;
  rotary.theta = parameters.Positive("rope_theta", around.theta);
  rotary.share = ReadShare(parameters, around.share);
  rotary.type = ParseType(parameters);
  if (rotary.type == Type::kDefault) return rotary;
  rotary.original_positions = rotary.type == Type::kLinear ? 0 : ReadOriginal(parameters, around, max_positions);
  if (rotary.type == Type::kYarn && parameters.IsNull("factor")) {
    rotary.factor = max_positions / rotary.original_positions;
  } else if (rotary.type != Type::kLongRope) {
    rotary.factor = parameters.Positive("factor");
  }
  if (rotary.type == Type::kLinear) return rotary;
  if (rotary.type == Type::kLlama3) ReadLlama3(parameters, rotary);
  if (rotary.type == Type::kYarn) ReadYarn(parameters, rotary);
  if (rotary.type == Type::kLongRope) ReadLongRope(parameters, max_positions, rotary);
  return rotary;
}

RotaryConfig::Layout ReadRotaryLayout(const ConfigKeys& keys) {
  const std::string layout = keys.Text("rotary_layout");
  if (layout == "half-split") return RotaryConfig::Layout::kHalfSplit;
  if (layout == "interleaved") return RotaryConfig::Layout::kInterleaved;
  Fail("{}: rotary_layout: got '{}', expected half-split or interleaved", keys.where(), layout);
}

void CheckRotary(const RotaryConfig& rotary, int head_dim, const std::string& where) {
  const int r = rotary.Channels(head_dim);
  if (rotary.share == 1 && r % 2 != 0)
    Fail("{}: head_dim: got {}, expected an even number: rotary embedding rotates pairs", where, head_dim);
  if (r < 2 || r % 2 != 0)
    Fail("{}: partial_rotary_factor: got {}, which is {} of the {} channels of a head, expected an even number of them",
         where, rotary.share, r, head_dim);
  if (rotary.type != Type::kLongRope) return;
  for (const auto& [key, divisors] :
       {std::pair{"short_factor", &rotary.short_divisors}, std::pair{"long_factor", &rotary.long_divisors}}) {
    if (std::ssize(*divisors) != r / 2)
      Fail("{}: {}: got {} numbers, expected {}, one for each pair of rotated channels", where, key, divisors->size(),
           r / 2);
  }
}

std::vector<float> RotaryFrequencies(const RotaryConfig& rotary, int head_dim, int64_t tokens) {
  std::vector<float> frequencies;
  const int r = rotary.Channels(head_dim);
  const std::vector<double>& divisors = rotary.IsLong(tokens) ? rotary.long_divisors : rotary.short_divisors;
  for (int i = 0; i < r; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(r);
    const float power = std::pow(static_cast<float>(rotary.theta), exponent), frequency = 1.0f / power;
    frequencies.push_back(rotary.type == Type::kLinear   ? frequency / static_cast<float>(rotary.factor)
                          : rotary.type == Type::kLlama3 ? Llama3(frequency, rotary)
                          : rotary.type == Type::kYarn   ? Yarn(power, i / 2, rotary, r)
                          : rotary.type == Type::kLongRope
                              ? 1.0f / (static_cast<float>(divisors[static_cast<size_t>(i / 2)]) * power)
                              : frequency);
  }
  return frequencies;
}

RotaryTable::RotaryTable(const RotaryConfig& rotary, int head_dim) : rotary_(rotary) {
  angles_.frequencies = RotaryFrequencies(rotary, head_dim);
  if (rotary.IsLong(kLongest)) long_angles_.frequencies = RotaryFrequencies(rotary, head_dim, kLongest);
}

void RotaryTable::Reserve(int64_t positions) {
  const auto factor = static_cast<float>(rotary_.attention_factor);
  angles_.Reserve(positions, factor);
  if (rotary_.IsLong(kLongest)) long_angles_.Reserve(positions, factor);
}

void RotaryTable::Angles::Reserve(int64_t positions, float factor) {
  if (frequencies.empty()) return;
  for (int64_t p = std::ssize(cosine) / Half(); p < positions; ++p) {
    for (const float frequency : frequencies) {
      const float angle = static_cast<float>(p) * frequency;
      cosine.push_back(std::cos(angle) * factor);
      sine.push_back(std::sin(angle) * factor);
    }
  }
}

std::string WithoutRotary(const ModelConfig& config) {
  if (!config.rotates) return Formatted("a {} model, which has no rotary positions", config.family);
  if (config.kv_rank > 0) return Formatted("a {} model, whose keys turn in their last channels", config.family);
  if (config.rotary.type == RotaryConfig::Type::kLongRope) return "longrope, whose keys turn by the text's length";
  return "";
}

std::shared_ptr<const KeyRotary> KeyRotaryOf(const ModelConfig& config, int layer, const std::string& where) {
  if (const std::string why = WithoutRotary(config); !why.empty())
    Fail("{}: got +prerotary for {}; try without it", where, why);
  std::vector<float> frequencies;  // none leave keys as they are
  if (config.Rotates(layer)) frequencies = RotaryFrequencies(config.Rotary(layer), config.head_dim);
  const bool halves = config.rotary.layout == RotaryConfig::Layout::kHalfSplit;
  return std::make_shared<const KeyRotary>(std::move(frequencies),
                                           halves ? RotaryPairs::kHalves : RotaryPairs::kNeighbours, config.head_dim);
}

}  // namespace tare
