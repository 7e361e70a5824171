// SPDX-License-Identifier: Apache-2.0
// AutoRound's own configuration, quant_method "auto-round". It packs as others do, and packing_format says which:
//
//   auto_round:auto_gptq          as GPTQ, zero points stored less one
//   auto_round, auto_round:gptqmodel  as GPTQ, zero points as they are
//   auto_round:auto_awq           as AWQ
//
// extra_config overrides bits, group_size and sym of modules, by name or by a regular expression.
#pragma once

#include "quant/interchange/folders/module_tensors.h"
#include "quant/interchange/folders/scheme_keys.h"

namespace tare {

ForeignModel ReadAutoRound(SchemeKeys& keys, ModuleTensors& tensors);

}  // namespace tare
