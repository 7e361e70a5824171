// SPDX-License-Identifier: Apache-2.0
// Matrices that GPTQModel, AutoGPTQ and AutoRound pack, from 2, 3, 4 and 8 bits. For W [out, in], G groups of columns:
//
//   X.qweight  i32 [in * bits / 32, out]   codes along `in`, a stream for each row of W
//   X.qzeros   i32 [G, out * bits / 32]    zero points along `out`
//   X.scales   f16 [G, out]                may be negative
//   X.g_idx    i32 [in]                    the group of each column; without it, group_size neighbours share one
//
//   W = scale * (code - zero point)
//
// Bits and groups come from the configuration, with overrides by module, and must agree with all shapes.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "quant/interchange/folders/gptq_zero_points.h"
#include "quant/interchange/folders/module_tensors.h"
#include "quant/interchange/folders/scheme_keys.h"

namespace tare {

struct GptqSettings {
  std::string tool = "GPTQ";
  int bits = 4;
  int64_t group = 128;  // columns that share a scale; -1: all
  bool symmetric = true;
  bool ordered = false;  // desc_act: g_idx must be there
};

// Settings of a module; nullopt for one that the configuration leaves as it is.
using SettingsOfModule = std::function<std::optional<GptqSettings>(const std::string& module)>;

// All modules with X.qweight. `where` names the configuration.
void ReadGptqMatrices(const SettingsOfModule& settings, StoredZeros configured, const std::string& where,
                      ModuleTensors& tensors, ForeignModel& model);

// bits, group_size, sym and desc_act, where an object has them.
GptqSettings ReadGptqSettings(SchemeKeys& keys, GptqSettings settings);

// quant_method "gptq".
ForeignModel ReadGptq(SchemeKeys& keys, ModuleTensors& tensors);

}  // namespace tare
