// SPDX-License-Identifier: Apache-2.0
// `quantization_config` of a folder's config.json says that another tool quantized it; MLX writes `quantization`.
// quant_method names the tool, and its reader takes the codes. A method, a key or a tensor that no reader understands
// is refused by name.
#pragma once

#include <string>

#include "quant/interchange/folders/module_tensors.h"
#include "quant/interchange/folders/scheme_keys.h"

namespace tare {

// The codes of a folder whose config.json, named `where`, is `config`; nothing without quantization_config.
ForeignModel ReadForeignModel(const std::string& config, const std::string& where, ModuleTensors& tensors);

// The reader of each method, in a source of its name (gptq.h and awq.h have what others use too).
ForeignModel ReadAutoRound(SchemeKeys& keys, ModuleTensors& tensors);
ForeignModel ReadCompressedTensors(SchemeKeys& keys, ModuleTensors& tensors);
ForeignModel ReadBitsAndBytes(SchemeKeys& keys, ModuleTensors& tensors);
ForeignModel ReadMxfp4(SchemeKeys& keys, ModuleTensors& tensors);
ForeignModel ReadMlx(SchemeKeys& keys, const Json& object, ModuleTensors& tensors);

// The same text without both keys: of the model alone.
std::string WithoutQuantizationConfig(const std::string& config, const std::string& where);

}  // namespace tare
