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
//
// AWQ's layout "gemm", 4 bits, with the same formula:
//
//   X.qweight  i32 [in, out / 8]   codes along `out`; nibbles 0 to 7 of a word are rows 0 2 4 6 1 3 5 7 of eight
//   X.qzeros   i32 [G, out / 8]    zero points, the same, as they are
//   X.scales   f16 [G, out]
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "quant/interchange/folders/grouped_matrix.h"
#include "quant/interchange/folders/quantization_config.h"

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

// GPTQ's two conventions of zero points. Version 1 subtracts one from each before packing, as 0x11111111 (4 bits) from
// each word, so that a 0 borrows from its neighbour and the sum of words gives it back; version 2 stores them as they
// are. Checkpoints name the version, some the wrong one. Symmetric matrices prove it: all zero points are 2^(bits - 1),
// or one less. Others prove nothing (either way means are near zero), so the name holds.
enum class StoredZeros { kLessOne, kAsTheyAre };

// The zero points of `packed`, as the convention stores them.
PackedCodes ZeroCodes(PackedCodes packed, StoredZeros stored);

// All modules with X.qweight. `where` names the configuration.
void ReadGptqMatrices(const SettingsOfModule& settings, StoredZeros configured, const std::string& where,
                      ModuleTensors& tensors, ForeignModel& model);
// All modules with X.qweight in AWQ's layout.
void ReadAwqMatrices(const SettingsOfModule& settings, const std::string& where, ModuleTensors& tensors,
                     ForeignModel& model);

// bits, group_size, sym and desc_act, where an object has them.
GptqSettings ReadGptqSettings(SchemeKeys& keys, GptqSettings settings);

}  // namespace tare
