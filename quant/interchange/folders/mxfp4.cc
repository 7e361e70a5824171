// SPDX-License-Identifier: Apache-2.0
// quant_method mxfp4: gpt-oss as OpenAI publishes it. Of a layer's experts, for X in gate_up_proj and down_proj,
//
//   X_blocks [experts, out, in / 32, 16]   u8, two codes of E2M1 each, the lower four bits first
//   X_scales [experts, out, in / 32]       E8M0
//
// become the matrix X.weight [experts out, in]. A block's value is E2M1 times 2^(scale - 127), exact in f32.
// Source: transformers, integrations/mxfp4.py.
#include "quant/interchange/folders/quantization_config.h"

#include "quant/base/message.h"
#include "quant/format/pack.h"
#include "quant/interchange/folders/grouped_matrix.h"

namespace tare {
namespace {

constexpr int64_t kBlock = 32;

GroupedParts Mxfp4Parts(const std::string& module, const std::string& matrix, ModuleTensors& tensors) {
  const TensorView& codes = tensors.Take(module, matrix + "_blocks", {DType::kU8});
  const TensorView& scales = tensors.Take(module, matrix + "_scales", {DType::kU8, DType::kF8E8M0});
  const std::string name = module + "." + matrix + ".weight";
  GroupedParts parts{.name = name, .where = tensors.Where(name), .scheme = "gpt-oss mxfp4"};
  if (codes.shape.size() != 4 || codes.shape[3] != kBlock / 2)
    Fail("{}: got shape {}, expected [experts, rows, blocks, {}]", tensors.Where(codes.name), ShapeText(codes.shape),
         kBlock / 2);
  tensors.Require(scales, {codes.shape[0], codes.shape[1], codes.shape[2]}, "one for each block of " + codes.name);
  parts.out = codes.shape[0] * codes.shape[1];
  parts.groups = codes.shape[2];
  parts.columns = kBlock;
  parts.in = parts.groups * kBlock;
  parts.codes = {.words = codes.bytes.data(), .bits = 4, .word_bytes = 1, .stream_step = parts.groups * kBlock / 2};
  parts.values = StoredValues(Format::kMxFp4);
  parts.scales = {.tensor = &scales, .row_step = parts.groups, .group_step = 1};
  parts.tensors = {&codes, &scales};
  return parts;
}

}  // namespace

ForeignModel ReadMxfp4(SchemeKeys& keys, ModuleTensors& tensors) {
  keys.Ignore("modules_to_not_convert dequantize");
  keys.RefuseOthers();
  ForeignModel model;
  for (const std::string matrix : {"gate_up_proj", "down_proj"}) {
    for (const std::string& module : tensors.ModulesWith(matrix + "_blocks"))
      AddMatrix(Mxfp4Parts(module, matrix, tensors), tensors, model);
  }
  tensors.CheckNothingLeft("gate_up_proj_blocks gate_up_proj_scales down_proj_blocks down_proj_scales");
  return model;
}

}  // namespace tare
