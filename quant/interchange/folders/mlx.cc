// SPDX-License-Identifier: Apache-2.0
// Matrices of MLX (mlx-lm), affine: 2 to 8 bits in groups of columns, embeddings and head too. For W [out, in]:
//
//   X.weight  u32 [out, in * bits / 32]  codes along the columns, without gaps
//   X.scales, X.biases  f16, bf16 or f32 [out, in / group_size]; scales may be negative
//
//   W = scale * code + bias
//
// A layer's experts are one module, X.switch_mlp.gate_proj, with experts as a first dimension: W [experts out, in].
//
// config.json has "quantization": {"group_size": 64, "bits": 4, MODULE: {...} or false, ...}, and often the same as
// quantization_config, without quant_method.
#include "quant/interchange/folders/quantization_config.h"

#include "quant/base/message.h"
#include "quant/interchange/folders/grouped_matrix.h"

namespace tare {
namespace {

struct MlxSettings {
  int bits = 4;
  int64_t group = 64;
};

MlxSettings ReadMlxSettings(SchemeKeys& keys) {
  keys.Only("mode", {"\"affine\""});
  return {.bits = static_cast<int>(keys.Integer("bits", 2, 8)), .group = keys.Integer("group_size", 1, 1 << 20)};
}

GroupedParts MlxParts(const std::string& module, const MlxSettings& s, ModuleTensors& tensors) {
  const TensorView& codes = tensors.Take(module, "weight", {DType::kU32});
  const TensorView& scales = tensors.Take(module, "scales", kFloatTypes);
  const TensorView& biases = tensors.Take(module, "biases", kFloatTypes);
  if (codes.shape.size() != 2 && codes.shape.size() != 3)
    Fail("{}: got shape {}, expected a matrix, or one of each expert", tensors.Where(codes.name),
         ShapeText(codes.shape));
  const int64_t words = codes.shape.back();
  const std::string name = module + ".weight", scheme = Formatted("MLX int{}/group{}", s.bits, s.group);
  GroupedParts parts{.name = name, .where = tensors.Where(name), .scheme = scheme, .in = words * 32 / s.bits};
  parts.out = static_cast<int64_t>(codes.elements()) / words;
  if (words * 32 % s.bits != 0 || parts.in % s.group != 0)
    Fail("{}: got {} words in a row, expected whole groups: {} in config.json", parts.where, words, scheme);
  parts.groups = parts.in / s.group;
  parts.columns = s.group;
  const std::string because = Formatted("{} [{}, {}] is {} in config.json", name, parts.out, parts.in, scheme);
  std::vector<int64_t> shape = codes.shape;
  shape.back() = parts.groups;
  tensors.Require(scales, shape, because);
  tensors.Require(biases, shape, because);
  parts.codes = {.words = codes.bytes.data(), .bits = s.bits, .stream_step = words};
  parts.values = IntegerValues(0);
  parts.scales = {.tensor = &scales, .row_step = parts.groups, .group_step = 1};
  parts.added = StoredScales{.tensor = &biases, .row_step = parts.groups, .group_step = 1};
  parts.tensors = {&codes, &scales, &biases};
  return parts;
}

}  // namespace

ForeignModel ReadMlx(SchemeKeys& keys, const Json& object, ModuleTensors& tensors) {
  const MlxSettings all = ReadMlxSettings(keys);
  std::map<std::string, std::optional<MlxSettings>> of_module;
  for (const auto& [key, value] : object.items()) {
    if (!value.is_object() && !value.is_boolean()) continue;
    keys.Find(key);  // known
    SchemeKeys own(value.is_object() ? value : object, keys.where() + ": " + key);
    of_module[key] = value == false ? std::nullopt : std::optional(value.is_object() ? ReadMlxSettings(own) : all);
    if (value.is_object()) own.RefuseOthers();
  }
  keys.RefuseOthers();
  ForeignModel model;
  for (const std::string& module : tensors.ModulesWith("scales")) {
    const auto found = of_module.find(module);
    const std::optional<MlxSettings> settings = found == of_module.end() ? all : found->second;
    if (!settings)
      Fail("{}: got codes, expected a plain weight: {} says false of '{}'", tensors.Where(module + ".scales"),
           keys.where(), module);
    AddMatrix(MlxParts(module, *settings, tensors), tensors, model);
  }
  tensors.CheckNothingLeft("scales biases");
  return model;
}

}  // namespace tare
