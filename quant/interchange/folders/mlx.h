// SPDX-License-Identifier: Apache-2.0
// Matrices of MLX (mlx-lm), affine: 2 to 8 bits, in groups of columns; embeddings and the head as well. For W
// [out, in]:
//
//   X.weight  u32 [out, in * bits / 32]  codes along the columns, without gaps
//   X.scales, X.biases  f16, bf16 or f32 [out, in / group_size]; scales may be negative
//
//   W = scale * code + bias
//
// config.json has "quantization": {"group_size": 64, "bits": 4, MODULE: {...} or false, ...}, and often the same as
// quantization_config, without quant_method.
#pragma once

#include "quant/interchange/folders/module_tensors.h"
#include "quant/interchange/folders/scheme_keys.h"

namespace tare {

ForeignModel ReadMlx(SchemeKeys& keys, const Json& object, ModuleTensors& tensors);

}  // namespace tare
