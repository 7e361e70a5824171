// SPDX-License-Identifier: Apache-2.0
// Matrices of compressed-tensors (what llm-compressor saves), by format. For W [out, in]:
//
//   pack-quantized        X.weight_packed i32 [out, words]: codes of 1 to 8 bits along the columns, each plus
//                         2^(bits - 1); X.weight_shape [2]; X.weight_scale; X.weight_zero_point i32, packed along rows
//   int-quantized         X.weight i8, X.weight_scale, X.weight_zero_point i8
//   float-quantized       X.weight E4M3, X.weight_scale
//   naive-quantized       either of these two
//   mxfp8-quantized       X.weight E4M3, X.weight_scale E8M0 for 32 columns
//   nvfp4-pack-quantized  X.weight_packed u8 [out, in / 2], neighbours in a byte, the first low; X.weight_scale E4M3
//                         for 16 columns; X.weight_global_scale f32, which divides it
//   mxfp4-pack-quantized  the same, with X.weight_scale E8M0 for 32 columns and no global scale
//
//   W = scale * (code - zero point)
//
// Scales are one for the tensor, for a row, for a group of columns (X.weight_g_idx may say which) or for a block, as
// the configuration says. Bits that do not divide 32 are packed without gaps from version 0.18 on, and before it with
// 32 / bits codes in a word; shapes tell, and where they do not, the version.
#include "quant/interchange/folders/compressed_tensors.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "quant/base/integers.h"
#include "quant/base/message.h"
#include "quant/format/pack.h"

namespace tare {
namespace {

using Strategy = CompressedArguments::Strategy;

// Reads one module. Its parts point into the tensors.
class ModuleReader {
 public:
  ModuleReader(const std::string& module, const CompressedGroup& group, const ModuleLayout& layout,
               ModuleTensors& tensors)
      : module_(module), weights_(group.weights), format_(group.format), layout_(layout), tensors_(tensors) {
    parts_.name = module + ".weight";
    parts_.where = tensors.Where(parts_.name);
  }

  GroupedParts Read() {
    if (weights_.dynamic || weights_.strategy == Strategy::kToken) Wrong("dynamic or by tokens");
    if (format_ == "pack-quantized") {
      ReadPacked();
    } else if (format_ == "int-quantized" || (format_ == "naive-quantized" && !weights_.is_float)) {
      ReadBytes();
    } else if (format_ == "float-quantized" || format_ == "naive-quantized") {
      ReadFloat8({DType::kF32, DType::kF16, DType::kBF16, DType::kF8E8M0});
    } else if (format_ == "mxfp8-quantized") {
      RequireGroups(32);
      ReadFloat8(kE8M0Types);
    } else if (format_ == "nvfp4-pack-quantized") {
      ReadFloat4(16, {DType::kF8E4M3});
      ReadGlobalScale();
    } else if (format_ == "mxfp4-pack-quantized") {
      ReadFloat4(32, kE8M0Types);
    } else {
      Fail(
          "{}: format: got '{}', expected pack-quantized, int-quantized, float-quantized, naive-quantized, "
          "mxfp8-quantized, nvfp4-pack-quantized or mxfp4-pack-quantized; others are not supported",
          layout_.where, format_);
    }
    ReadGroupsOfColumns();
    TakeScalesOfInputs();
    return std::move(parts_);
  }

 private:
  [[noreturn]] void Wrong(std::string_view what) const {
    Fail("{}: {}: got weights that are {}, of '{}'; this is not supported", layout_.where, format_, what, module_);
  }
  void Name(std::string_view code) {
    parts_.scheme = Formatted("{} {}/{}", layout_.tool, code, StrategyText(weights_));
  }
  const TensorView& Part(std::string_view part, std::initializer_list<DType> types) {
    return *parts_.tensors.emplace_back(&tensors_.Take(module_, part, types));
  }
  const TensorView& Matrix(std::string_view part, DType type) {
    return *parts_.tensors.emplace_back(&tensors_.TakeMatrix(module_, part, {type}));
  }
  void RequireGroups(int64_t columns) const {
    if (!weights_.is_float || weights_.group != columns)
      Wrong(Formatted("not floats in groups of {} columns", columns));
  }

  void ReadPacked() {
    if (weights_.is_float || weights_.bits > 8) Wrong("not integers of 1 to 8 bits");
    const TensorView& codes = Matrix("weight_packed", DType::kI32);
    ReadShape(codes);
    Name(Formatted("int{}", weights_.bits));
    parts_.codes = {
        .words = codes.bytes.data(), .bits = weights_.bits, .per_word = PerWord(codes), .stream_step = codes.shape[1]};
    parts_.values = parts_.zero_values = IntegerValues(1 << (weights_.bits - 1));
    ReadScales(kFloatTypes);
    if (weights_.symmetric || weights_.strategy == Strategy::kTensor) return ReadPlainZeros();
    const TensorView& zeros = Matrix("weight_zero_point", DType::kI32);
    tensors_.Require(zeros, {WordsOf(parts_.out, weights_.bits, parts_.codes.per_word, 32), parts_.groups},
                     Because(parts_));
    parts_.zeros = PackedCodes{.words = zeros.bytes.data(),
                               .bits = weights_.bits,
                               .per_word = parts_.codes.per_word,
                               .word_step = parts_.groups,
                               .stream_step = 1,
                               .along_rows = false};
  }

  // The true shape: rows may end within a word.
  void ReadShape(const TensorView& codes) {
    const TensorView& shape = Part("weight_shape", {DType::kI64, DType::kI32});
    tensors_.Require(shape, {2}, "rows and columns");
    parts_.out = IntegerAt(shape, 0), parts_.in = IntegerAt(shape, 1);
    constexpr int64_t kMost = int64_t{1} << 40;
    if (parts_.out != codes.shape[0] || parts_.in < 1 || parts_.in > kMost)
      Fail("{}: got [{}, {}], expected {} rows and a positive number of columns", tensors_.Where(shape.name),
           parts_.out, parts_.in, codes.shape[0]);
  }

  // Codes in a word; 0 where they are packed without gaps.
  int PerWord(const TensorView& codes) const {
    const int in_word = 32 / weights_.bits;
    const bool dense = codes.shape[1] == WordsOf(parts_.in, weights_.bits, 0, 32);
    const bool gaps = codes.shape[1] == WordsOf(parts_.in, weights_.bits, in_word, 32);
    if (!dense && !gaps)
      Fail("{}: got shape {}, expected {} words in a row: {}", tensors_.Where(codes.name), ShapeText(codes.shape),
           WordsOf(parts_.in, weights_.bits, 0, 32), Because(parts_));
    if (32 % weights_.bits == 0 || !gaps) return 0;
    if (!dense) return in_word;
    if (!layout_.dense)
      Fail("{}: version: missing; expected one, as it says how {} columns of {} bits lie in {} words", layout_.where,
           parts_.in, weights_.bits, codes.shape[1]);
    return *layout_.dense ? 0 : in_word;
  }

  void ReadBytes() {
    if (weights_.is_float || weights_.bits > 8) Wrong("not integers of at most 8 bits");
    ReadWeight("weight", DType::kI8, 8);
    Name(Formatted("int{}", weights_.bits));
    parts_.values = parts_.zero_values = SignedByteValues();
    ReadScales(kFloatTypes);
    ReadPlainZeros();
  }

  void ReadFloat8(std::initializer_list<DType> scales) {
    if (!weights_.is_float || weights_.bits != 8 || !weights_.symmetric) Wrong("not symmetric floats of 8 bits");
    ReadWeight("weight", DType::kF8E4M3, 8);
    Name(format_ == "mxfp8-quantized" ? "mxfp8" : "fp8");
    parts_.values = StoredValues(Format::kFp8E4M3);
    ReadScales(scales);
    ReadPlainZeros();
  }

  // Codes of 8 or 4 bits in bytes.
  void ReadWeight(std::string_view part, DType type, int bits) {
    const TensorView& codes = Matrix(part, type);
    parts_.out = codes.shape[0];
    parts_.in = 8 / bits * codes.shape[1];
    parts_.codes = {.words = codes.bytes.data(), .bits = bits, .word_bytes = 1, .stream_step = codes.shape[1]};
  }

  void ReadFloat4(int64_t columns, std::initializer_list<DType> scales) {
    if (weights_.bits != 4 || !weights_.symmetric) Wrong("not symmetric floats of 4 bits");
    RequireGroups(columns);
    ReadWeight(layout_.float4, DType::kU8, 4);
    Name(columns == 16 ? "nvfp4" : "mxfp4");
    parts_.values = StoredValues(Format::kMxFp4);
    ReadScales(scales);
  }

  void ReadGlobalScale() {
    const TensorView& scale = Part(layout_.second_scale, {DType::kF32});
    const float value = FloatAt(DType::kF32, scale.bytes.data());
    if (scale.elements() != 1 || !std::isfinite(value) || value <= 0)
      Fail("{}: got shape {} and {}, expected one positive number", tensors_.Where(scale.name), ShapeText(scale.shape),
           value);
    (layout_.second == ModuleLayout::Second::kDivides ? parts_.scales.divisor : parts_.scales.factor) = value;
  }

  void ReadScales(std::initializer_list<DType> types) {
    const TensorView& scales = Part(layout_.scale, types);
    parts_.scales.tensor = &scales;
    parts_.columns = parts_.in;
    if (weights_.strategy == Strategy::kTensor) {
      if (scales.elements() != 1) tensors_.Require(scales, {1}, Because(parts_));
      return;
    }
    std::vector<int64_t> shape{parts_.out, 1};
    if (weights_.strategy == Strategy::kGroup || weights_.strategy == Strategy::kTensorGroup) {
      if (parts_.in % weights_.group != 0)
        Fail("{}: got {} columns, expected a multiple of group_size {}", parts_.where, parts_.in, weights_.group);
      parts_.columns = weights_.group;
      shape = {parts_.out, parts_.in / weights_.group};
    } else if (weights_.strategy == Strategy::kBlock) {
      parts_.scales.rows = weights_.block[0];
      parts_.columns = weights_.block[1];
      shape = {CeilDiv(parts_.out, weights_.block[0]), CeilDiv(parts_.in, weights_.block[1])};
    }
    if (weights_.strategy != Strategy::kChannel || scales.shape != std::vector{parts_.out})
      tensors_.Require(scales, shape, Because(parts_));
    parts_.groups = shape[1];
    parts_.scales.row_step = parts_.groups;
    parts_.scales.group_step = 1;
  }

  // Zero points in bytes beside the scales. Symmetric weights may have them, all 0.
  void ReadPlainZeros() {
    if (tensors_.Find(module_, "weight_zero_point") == nullptr && weights_.symmetric) return;
    const TensorView& zeros = Part("weight_zero_point", {DType::kI8, DType::kF8E4M3});
    if (weights_.symmetric) {
      if (std::ranges::any_of(zeros.bytes, [](std::byte b) { return (b & std::byte{0x7f}) != std::byte{0}; }))
        Fail("{}: got a zero point that is not 0, expected none: quantization_config says symmetric",
             tensors_.Where(zeros.name));
      return;
    }
    if (weights_.strategy == Strategy::kBlock || zeros.dtype != DType::kI8) Wrong("asymmetric in blocks or floats");
    tensors_.Require(zeros, parts_.scales.tensor->shape, "one for each scale");
    parts_.zero_values = SignedByteValues();
    parts_.zeros =
        PackedCodes{.words = zeros.bytes.data(), .bits = 8, .word_bytes = 1, .stream_step = parts_.scales.row_step};
  }

  // The library sorts columns by their group and deals them out again, so each group must have as many as the others.
  void ReadGroupsOfColumns() {
    if (tensors_.Find(module_, "weight_g_idx") == nullptr) {
      if (weights_.ordered)
        Fail("{}: missing, where quantization_config says actorder: group", tensors_.Where(module_ + ".weight_g_idx"));
      return;
    }
    const TensorView& g_idx = Part("weight_g_idx", {DType::kI32, DType::kI64});
    std::vector<int32_t> group_of = GroupsOfColumns(parts_, g_idx, -1, tensors_);
    std::vector<int64_t> columns(static_cast<size_t>(parts_.groups), 0);
    for (const int32_t group : group_of) {
      if (group >= 0) ++columns[static_cast<size_t>(group)];
    }
    if (std::ranges::count(group_of, -1) == parts_.in) return;  // never filled in: groups are neighbours
    for (size_t g = 0; g < columns.size(); ++g) {
      if (columns[g] != parts_.columns)
        Fail("{}: got {} columns in group {}, expected {}", tensors_.Where(g_idx.name), columns[g], g, parts_.columns);
    }
    parts_.group_of = std::move(group_of);
  }

  // These scales serve rounding that a plan decides, not the file. They are no part of the weights.
  void TakeScalesOfInputs() {
    for (const char* part : {"input_scale", "activation_scale"}) {
      const TensorView* const scale = tensors_.Find(module_, part);
      if (scale == nullptr || scale->elements() != 1) continue;
      parts_.input_scale = StoredScales{.tensor = &tensors_.Take(module_, part, kFloatTypes)}.At(0, 0);
      if (!std::isfinite(*parts_.input_scale) || *parts_.input_scale <= 0)
        Fail("{}: got {}, expected a positive number; try the checkpoint's source", tensors_.Where(scale->name),
             *parts_.input_scale);
    }
    for (const char* part : {"input_scale", "activation_scale", "input_zero_point", "input_global_scale"}) {
      if (tensors_.Find(module_, part) != nullptr)
        tensors_.Take(module_, part, {DType::kF32, DType::kF16, DType::kBF16, DType::kI8, DType::kF8E4M3});
    }
  }

  const std::string& module_;
  const CompressedArguments& weights_;
  const std::string& format_;
  const ModuleLayout& layout_;
  ModuleTensors& tensors_;
  GroupedParts parts_;
};

// Caches are rounded by a plan, not by the file, whose scales of them are no part of the weights.
void ReadCaches(const std::optional<CompressedArguments>& caches, ModuleTensors& tensors,
                std::vector<std::string>& notes) {
  if (!caches) return;
  for (const char* part : {"k_scale", "v_scale"}) {
    for (const std::string& module : tensors.ModulesWith(part)) tensors.Take(module, part, kFloatTypes);
  }
  constexpr int kCacheBits[] = {2, 3, 4, 6};  // of a plan's nearest rule: the fewest that hold these, 8 if none do
  const auto* bits = std::ranges::lower_bound(kCacheBits, caches->bits);
  const std::string rule = Formatted("int{}/token{}", bits == std::end(kCacheBits) ? 8 : *bits,
                                     caches->is_float || caches->symmetric ? "" : "+zero");
  notes.emplace_back(
      Formatted("caches were meant to be rounded as well, to {} of {} bits; the nearest: --cache cache_k={},cache_v={}",
                caches->is_float ? "floats" : "integers", caches->bits, rule, rule));
}

std::set<std::string> ModulesWithCodes(const ModuleLayout& layout, const ModuleTensors& tensors) {
  std::set<std::string> modules;
  for (const std::string& part : {layout.float4, layout.scale}) {
    for (const std::string& module : tensors.ModulesWith(part)) {
      if (part != "weight") modules.insert(module);
    }
  }
  for (const std::string& module : tensors.ModulesWith("weight")) {
    const DType type = tensors.Find(module, "weight")->dtype;
    if (type == DType::kI8 || type == DType::kF8E4M3) modules.insert(module);
  }
  return modules;
}

}  // namespace

ForeignModel ReadScaledModules(const GroupOfModule& group_of, const ModuleLayout& layout, ModuleTensors& tensors) {
  ForeignModel model;
  InputPlan inputs;
  for (const std::string& module : ModulesWithCodes(layout, tensors)) {
    const CompressedGroup& group = group_of(module);
    GroupedParts parts = ModuleReader(module, group, layout, tensors).Read();
    if (group.inputs) inputs.Add(module, *group.inputs, parts.input_scale.has_value());
    AddMatrix(std::move(parts), tensors, model);
  }
  inputs.Describe(model.notes);
  ReadCaches(layout.caches, tensors, model.notes);
  tensors.CheckNothingLeft(
      "weight_packed weight_scale weight_scale_inv weight_scale_2 weight_zero_point weight_shape weight_g_idx "
      "weight_global_scale input_scale activation_scale input_zero_point input_global_scale pre_quant_scale "
      "output_scale output_zero_point k_scale v_scale q_scale bitmask compressed row_offsets shape");
  return model;
}

ForeignModel ReadCompressedTensors(SchemeKeys& keys, ModuleTensors& tensors) {
  const CompressedConfig config(keys);
  return ReadScaledModules(
      [&](const std::string& module) -> const CompressedGroup& {
        if (const CompressedGroup* group = config.GroupOf(module)) return *group;
        Fail("{}: got codes, but no target of {}: config_groups has '{}'", tensors.Where(module), keys.where(), module);
      },
      config.layout(), tensors);
}

}  // namespace tare
