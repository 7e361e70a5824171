// SPDX-License-Identifier: Apache-2.0
// How much attention each key of a cache gets, which policies use to choose the keys that they keep (H2O, arXiv
// 2306.14048; SnapKV, arXiv 2404.14469): summed over queries and over the heads of a group (decode_heads.h), which
// share keys or values and so keep the same.
//
//   maps         sum of P over all maps
//   difference   sum of |P1 - lambda P2| over output heads; of heads with one map P: what an output is made of
#pragma once

#include <span>
#include <vector>

#include "kernels/decode/decode_attention.h"

namespace tare {

enum class KeyMass { kMaps, kDifference };

// Adds to mass[group][token], each of at least as many tokens as the cache has. Keys are read twice; out is not written
// and V not read. The sequence is as DecodeAttention takes it.
void AddKeyMass(KeyMass of, const DecodeHeads& table, const DecodeSequence& s, std::span<std::vector<float>> mass);

}  // namespace tare
