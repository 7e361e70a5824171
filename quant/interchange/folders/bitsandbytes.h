// SPDX-License-Identifier: Apache-2.0
// Matrices of bitsandbytes in four bits, NF4 and its FP4 (which is not E2M1). The matrix is flattened, two codes to a
// byte, the first high; a block of `blocksize` values shares a scale, and may go on in the next row:
//
//   X.weight                   u8 [out * in / 2, 1]
//   X.weight.quant_map         f32 [16], the value of each code
//   X.weight.absmax            f32 [blocks], or, quantized again, u8: map[code] * absmax of 256 blocks + offset
//   X.weight.nested_quant_map  f32 [256], and X.weight.nested_absmax f32 [blocks / 256]: of absmax
//   X.weight.quant_state.bitsandbytes__nf4 (or __fp4)  u8, JSON: shape, blocksize, quant_type, nested_blocksize,
//                              nested_offset
//
//   W = value[code] * absmax
#pragma once

#include "quant/interchange/folders/module_tensors.h"
#include "quant/interchange/folders/scheme_keys.h"

namespace tare {

ForeignModel ReadBitsAndBytes(SchemeKeys& keys, ModuleTensors& tensors);

}  // namespace tare
