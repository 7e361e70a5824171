// SPDX-License-Identifier: Apache-2.0
// quant_method mxfp4: gpt-oss as OpenAI publishes it. Of a layer's experts, for X in gate_up_proj and down_proj,
//
//   X_blocks [experts, out, in / 32, 16]   u8, two codes of E2M1 each, the lower four bits first
//   X_scales [experts, out, in / 32]       E8M0
//
// become the matrix X.weight [experts out, in]. A block's value is E2M1 times 2^(scale - 127), exact in f32.
// Source: transformers, integrations/mxfp4.py.
#pragma once

#include "quant/interchange/folders/module_tensors.h"
#include "quant/interchange/folders/scheme_keys.h"

namespace tare {

ForeignModel ReadMxfp4(SchemeKeys& keys, ModuleTensors& tensors);

}  // namespace tare
