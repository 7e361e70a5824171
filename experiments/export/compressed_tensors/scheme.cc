// SPDX-License-Identifier: Apache-2.0
#include "experiments/export/compressed_tensors/scheme.h"

#include <algorithm>

#include "experiments/model/config/family.h"
#include "experiments/plan/resolved_plan.h"
#include "experiments/quantize/round_layers.h"

namespace tare {
namespace {

using Kind = Granularity::Kind;

[[noreturn]] void NoScheme(const Rule& rule, std::string_view expected, std::string_view attempt) {
  RefuseRule(rule, "what --format compressed-tensors does not write", expected, attempt);
}

// The format whatever its rule for scales and ties, and its range of codes; those differ in which codes they make, not
// in what codes mean, but for a zero point.
Format Base(Format format) {
  format.range = CodeRange::kOwn;
  const bool other_scale = RowOf(format.base).scale == ScaleType::kF32 && format.scale != ScaleType::kF32;
  return !format.levels.empty() || other_scale ? format : format.base;
}

Json Numbers(const Format format, std::string_view strategy, bool dynamic) {
  return {{"num_bits", Info(format).bits},
          {"type", IsInteger(format) ? "int" : "float"},
          {"symmetric", true},
          {"strategy", strategy},
          {"dynamic", dynamic}};
}

Json Grouped(const Format format, std::string_view strategy, int group, bool dynamic) {
  Json numbers = Numbers(format, strategy, dynamic);
  numbers["group_size"] = group;
  return numbers;
}

// Of blocks that the format defines.
Json Blocks(const Format format, bool dynamic) {
  const FormatInfo& info = Info(format);
  const bool two_levels = IsTwoLevel(format.scale);
  Json numbers = Grouped(format, two_levels ? "tensor_group" : "group", info.block, dynamic);
  numbers["scale_dtype"] = two_levels ? "torch.float8_e4m3fn" : "torch.uint8";
  return numbers;
}

Json ByGranularity(const Rule& rule, Format format) {
  const bool grouped = rule.granularity.kind == Kind::kGroup;
  Json numbers = grouped ? Grouped(format, "group", rule.granularity.n, false)
                         : Numbers(format, rule.granularity.kind == Kind::kTensor ? "tensor" : "channel", false);
  if (HasOffset(rule.format)) numbers["symmetric"] = false;
  return numbers;
}

CompressedScheme OfWeights(const Rule& rule) {
  const Format format = Base(rule.format);
  const Kind kind = rule.granularity.kind;
  if (rule.format.range == CodeRange::kMin) NoScheme(rule, "a zero point that is a code", "+zero");
  switch (format == format.base ? format.base : Format::kListed) {
    case Format::kInt4:
      if (kind == Kind::kTensor) NoScheme(rule, "int4 per channel or group<N>", "int4/channel");
      return {CompressedLayout::kPackedIntegers, "pack-quantized", ByGranularity(rule, format), {}};
    case Format::kInt8:
      if (kind == Kind::kTensor) return {CompressedLayout::kIntegers, "int-quantized", ByGranularity(rule, format), {}};
      return {CompressedLayout::kPackedIntegers, "pack-quantized", ByGranularity(rule, format), {}};
    case Format::kFp8E4M3:
      if (kind == Kind::kGroup) NoScheme(rule, "fp8e4m3 per tensor or channel", "fp8e4m3/channel");
      return {CompressedLayout::kFloat8, "float-quantized", ByGranularity(rule, format), {}};
    case Format::kMxFp8E4M3:
      return {CompressedLayout::kFloat8, "mxfp8-quantized", Blocks(format, false), {}};
    case Format::kNvFp4:
      return {CompressedLayout::kNvFp4, "nvfp4-pack-quantized", Blocks(format, false), {}};
    case Format::kMxFp4:
      return {CompressedLayout::kMxFp4, "mxfp4-pack-quantized", Blocks(format, false), {}};
    default:
      NoScheme(rule, "weights in int4, int8, fp8e4m3, mxfp8e4m3, nvfp4 or mxfp4", "--format safetensors");
  }
}

// One scale per token, or a static one.
Json ScaledInputs(const Rule& inputs) {
  const Format format = Base(inputs.format);
  const bool is_static = inputs.options.static_scale;
  if (is_static ? inputs.granularity.kind != Kind::kTensor : inputs.granularity.kind != Kind::kToken)
    NoScheme(inputs, "inputs per token, or per tensor+static", "/token");
  return Numbers(format, is_static ? "tensor" : "token", !is_static);
}

}  // namespace

CompressedScheme SchemeOf(const Rule& weights, const Rule* inputs) {
  for (const Rule* const rule : {&weights, inputs}) {
    if (rule != nullptr && rule->options.hadamard)
      NoScheme(*rule, "rows that are not rotated", "--method hadamard, or --format safetensors");
  }
  CompressedScheme scheme = OfWeights(weights);
  if (inputs == nullptr) return scheme;
  const Format of_weights = Base(weights.format), of_inputs = Base(inputs->format);
  if ((inputs->options.percentile || inputs->options.mse) && !inputs->options.static_scale)
    NoScheme(*inputs, "inputs that are not clipped", "it without this option");
  if (of_weights != of_inputs || of_weights == Format::kInt4 || of_weights == Format::kNvFp4)
    NoScheme(*inputs,
             "int8, fp8e4m3, mxfp8e4m3 or mxfp4 inputs of weights in the same format (NVFP4's inputs need a static "
             "scale of the whole)",
             "f32 for these inputs");
  if (Info(of_inputs).block > 0) {
    scheme.inputs = Blocks(of_inputs, true);
    return scheme;
  }
  if (HasOffset(weights.format)) NoScheme(weights, "symmetric weights where inputs are rounded", "int8/channel+full");
  if (weights.granularity.kind == Kind::kGroup)
    NoScheme(weights, "weights per tensor or channel where inputs are rounded", "int8/channel");
  if (of_inputs == Format::kInt8) scheme.layout = CompressedLayout::kIntegers, scheme.format = "int-quantized";
  scheme.inputs = ScaledInputs(*inputs);
  if (inputs->options.static_scale) scheme.largest_input = Info(of_inputs).Largest();
  return scheme;
}

void CheckCompressed(const Plan& plan, const ModelConfig& config) {
  const std::map<std::string, SiteKey> weights = WeightSites(config);
  const auto is_linear = [&](Site site) {
    return std::ranges::any_of(
        weights, [&](const auto& entry) { return entry.second.site == site || InputOf(entry.second.site) == site; });
  };
  for (const Rule& rule : plan.rules()) {
    if (rule.Exempts()) continue;
    if (std::ranges::none_of(rule.sites, is_linear))
      NoScheme(rule, "rules for weights and inputs of linear layers", "this rule in tare eval --plan");
  }
  const auto rounds = [](const Rule* rule) { return rule != nullptr && rule->format != Format::kF32; };
  for (const auto& [name, key] : weights) {
    const Rule* const of_weights = plan.Match(key);
    const Rule* of_inputs = plan.Match({InputOf(key.site), key.layer});
    if (!rounds(of_inputs)) of_inputs = nullptr;
    if (rounds(of_weights)) {
      SchemeOf(*of_weights, of_inputs);
    } else if (of_inputs != nullptr) {
      NoScheme(*of_inputs, "inputs of weights that are rounded, too", "f32 for these inputs");
    }
  }
}

}  // namespace tare
