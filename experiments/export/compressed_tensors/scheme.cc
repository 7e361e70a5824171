// SPDX-License-Identifier: Apache-2.0
#include "experiments/export/compressed_tensors/export.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "experiments/model/config/family.h"
#include "experiments/plan/resolved_plan.h"
#include "experiments/quantize/round_layers.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "quant/format/pack.h"

namespace tare {
namespace {

using Kind = Granularity::Kind;

[[noreturn]] void NoScheme(const Rule& rule, std::string_view expected, std::string_view attempt) {
  RefuseRule(rule, "what --format compressed-tensors does not write", expected, attempt);
}

// The format without its rule for scales and ties and its range: only a zero point changes what codes mean.
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

// The numbers of a format that defines its own blocks.
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

// The number subtracted from codes that start at 0 to make them signed: 2^(bits - 1); 0 for signed codes.
int Middle(const QuantizedMatrix& m) { return HasOffset(m.format) ? 1 << (Info(m.format).bits - 1) : 0; }

// Calls body(row, codes) from several threads: a byte per value of the row, for integers in two's complement.
template <typename Body>
void ForRows(const QuantizedMatrix& m, Body body) {
  const FormatInfo& info = Info(m.format);
  const int middle = Middle(m);
  ParallelFor(static_cast<size_t>(m.out), [&](int64_t row, int) {
    thread_local std::vector<float> values;
    thread_local std::vector<uint8_t> codes;
    values.resize(static_cast<size_t>(m.in));
    codes.resize(values.size());
    UnpackRow(m, row, values);
    std::ranges::transform(values, codes.begin(), [&](float value) {
      return IsInteger(m.format) ? static_cast<uint8_t>(static_cast<int>(value) - middle) : StoredCode(value, info);
    });
    body(row, codes.data());
  });
}

// Adds code i of 4 or 8 bits to zeros. The first has the lowest bits of a byte, and so of a word.
void PutCode(std::byte* packed, int64_t i, int bits, int code) {
  packed[i * bits / 8] |= static_cast<std::byte>(code << (i * bits % 8));
}

void AddPackedIntegers(NewModule& module, const QuantizedMatrix& m) {
  const int bits = Info(m.format).bits, per_word = 32 / bits;
  const int64_t words = (m.in + per_word - 1) / per_word;
  std::byte* const packed = module.Add("weight_packed", DType::kI32, {m.out, words});
  ForRows(m, [&](int64_t row, const uint8_t* codes) {
    for (int64_t i = 0; i < m.in; ++i)
      PutCode(packed + row * words * 4, i, bits, static_cast<int8_t>(codes[i]) + (1 << (bits - 1)));
  });
  const int64_t shape[2]{m.out, m.in};
  std::memcpy(module.Add("weight_shape", DType::kI64, {2}), shape, sizeof shape);
}

void AddBytes(NewModule& module, const QuantizedMatrix& m, DType dtype) {
  std::byte* const bytes = module.Add("weight", dtype, {m.out, m.in});
  ForRows(
      m, [&](int64_t row, const uint8_t* codes) { std::memcpy(bytes + row * m.in, codes, static_cast<size_t>(m.in)); });
}

// Two neighbours share a byte.
void AddFloat4(NewModule& module, const QuantizedMatrix& m) {
  std::byte* const bytes = module.Add("weight_packed", DType::kU8, {m.out, m.in / 2});
  ForRows(m, [&](int64_t row, const uint8_t* codes) {
    for (int64_t i = 0; i < m.in; ++i) PutCode(bytes + row * (m.in / 2), i, 4, codes[i]);
  });
}

// A scale per tensor is repeated for each row in Tare's matrices.
void AddScales(NewModule& module, const QuantizedMatrix& m, const CompressedScheme& scheme) {
  const bool whole = scheme.weights["strategy"].get<std::string>() == "tensor";
  const std::vector<int64_t> shape = whole ? std::vector<int64_t>{1} : std::vector{m.out, m.Groups()};
  const bool is_f32 = m.scale_codes == nullptr;
  const DType dtype = is_f32 ? DType::kF32 : IsTwoLevel(m.format.scale) ? DType::kF8E4M3 : DType::kU8;
  std::byte* const scales = module.Add("weight_scale", dtype, shape);
  const size_t bytes = static_cast<size_t>(*ByteCount(dtype, shape));
  std::memcpy(scales, is_f32 ? static_cast<const void*>(m.scales) : m.scale_codes, bytes);
}

// The zero points of packed integers, packed as their codes but along the rows.
void AddPackedZeros(NewModule& module, const QuantizedMatrix& m) {
  const int bits = Info(m.format).bits, per_word = 32 / bits;
  const int64_t words = (m.out + per_word - 1) / per_word, groups = m.Groups();
  std::byte* const packed = module.Add("weight_zero_point", DType::kI32, {words, groups});
  for (int64_t row = 0; row < m.out; ++row) {
    for (int64_t g = 0; g < groups; ++g)
      PutCode(packed + (row / per_word * groups + g) * 4, row % per_word, bits, m.zeros[row * groups + g]);
  }
}

// The zero points of integers in bytes, one for each scale.
void AddByteZeros(NewModule& module, const QuantizedMatrix& m) {
  const std::vector<int64_t> shape = module.tensors.back().shape;  // of the scales
  std::byte* const zeros = module.Add("weight_zero_point", DType::kI8, shape);
  for (int64_t i = 0; i < static_cast<int64_t>(*ByteCount(DType::kI8, shape)); ++i)
    zeros[i] = static_cast<std::byte>(m.zeros[i] - Middle(m));
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
  const bool is_static = inputs->options.static_scale;
  if ((inputs->options.percentile || inputs->options.mse) && !is_static)
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
  if (inputs->granularity.kind != (is_static ? Kind::kTensor : Kind::kToken))
    NoScheme(*inputs, "inputs per token, or per tensor+static", "/token");
  scheme.inputs = Numbers(of_inputs, is_static ? "tensor" : "token", !is_static);
  if (is_static) scheme.largest_input = Info(of_inputs).Largest();
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

std::byte* NewModule::Add(const std::string& part, DType dtype, std::vector<int64_t> shape) {
  AlignedBuffer<std::byte>& bytes = memory.emplace_back(static_cast<size_t>(*ByteCount(dtype, shape)));
  std::fill_n(bytes.data(), bytes.size(), std::byte{0});
  tensors.push_back({name + "." + part, dtype, std::move(shape), bytes.span()});
  return bytes.data();
}

float DivisorFor(float of_tensor) {
  if (of_tensor == 0) return 1;
  const float inverse = 1 / of_tensor;
  const auto misses = [&](float g) {
    int count = 0;
    for (float a = 8; a < 16; ++a) count += a / g != a * of_tensor;  // its other values are these times powers of two
    return count;
  };
  float best = inverse;
  for (const float toward : {0.0f, std::numeric_limits<float>::infinity()}) {
    const float next = std::nextafter(inverse, toward);
    if (misses(next) < misses(best)) best = next;
  }
  return best;
}

NewModule ModuleOf(const std::string& name, const QuantizedMatrix& m, const CompressedScheme& scheme,
                   const std::string& where) {
  NewModule module{.name = name};
  if (m.rotation != nullptr)
    Fail(
        "{}: tensor '{}.weight': got codes of rotated weights, expected none, as {} has no rotations; try --format "
        "safetensors",
        where, name, scheme.format);
  if (const int block = Info(m.format).block; block > 0 && m.in % block != 0)
    Fail(
        "{}: tensor '{}.weight': got rows of {} weights, expected a multiple of {} as {} holds them; try another rule "
        "for these weights",
        where, name, m.in, block, scheme.format);
  using enum CompressedLayout;
  const CompressedLayout layout = scheme.layout;
  if (layout == kPackedIntegers) AddPackedIntegers(module, m);
  if (layout == kIntegers) AddBytes(module, m, DType::kI8);
  if (layout == kFloat8) AddBytes(module, m, DType::kF8E4M3);
  if (layout == kNvFp4 || layout == kMxFp4) AddFloat4(module, m);
  if (layout == kNvFp4) {
    const float divisor = DivisorFor(m.of_tensor);
    std::memcpy(module.Add("weight_global_scale", DType::kF32, {1}), &divisor, sizeof divisor);
  }
  AddScales(module, m, scheme);
  if (m.zeros != nullptr) layout == kPackedIntegers ? AddPackedZeros(module, m) : AddByteZeros(module, m);
  return module;
}

}  // namespace tare
