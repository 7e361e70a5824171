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
#include "quant/base/message.h"
#include "quant/interchange/folders/scaled_module.h"

namespace tare {

ForeignModel ReadCompressedTensors(SchemeKeys& keys, ModuleTensors& tensors) {
  const CompressedConfig config(keys);
  return ReadScaledModules(
      [&](const std::string& module) -> const CompressedGroup& {
        if (const CompressedGroup* group = config.GroupOf(module)) return *group;
        Fail("{}: got codes, but no target of {}: config_groups has '{}'", tensors.Where(module), config.where(),
             module);
      },
      {.where = config.where(), .dense = config.dense(), .caches = config.caches()}, tensors);
}

}  // namespace tare
