// SPDX-License-Identifier: Apache-2.0
// AWQ's layout "gemm", 4 bits. For W [out, in], G groups of columns:
//
//   X.qweight  i32 [in, out / 8]   codes along `out`; nibbles 0 to 7 of a word are rows 0 2 4 6 1 3 5 7 of eight
//   X.qzeros   i32 [G, out / 8]    zero points, the same, as they are
//   X.scales   f16 [G, out]
//
//   W = scale * (code - zero point)
#pragma once

#include "quant/interchange/folders/gptq.h"

namespace tare {

// All modules with X.qweight.
void ReadAwqMatrices(const SettingsOfModule& settings, const std::string& where, ModuleTensors& tensors,
                     ForeignModel& model);

// quant_method "awq".
ForeignModel ReadAwq(SchemeKeys& keys, ModuleTensors& tensors);

}  // namespace tare
