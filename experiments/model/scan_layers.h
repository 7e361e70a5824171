// SPDX-License-Identifier: Apache-2.0
// Steps of layers without attention: a Mamba-1 (Gu and Dao 2023), and a gated memory unit (Ren et al. 2025, SambaY)
// that reads what a Mamba before it computed. Legend as in decoder.h; C channels of the scan, N states, R_dt rank.
//
//   Mamba   [u | z] = in_proj normed;   u = silu(conv1d(u));   [r | B | C] = x_proj u;   d = softplus(dt_proj r + b)
//           memory = scan(u, d, B, C) + D u;   delta = out_proj(memory * silu(z))
//   unit    delta = out_proj(memory * silu(in_proj normed))
//
// A sequence's branches each continue from the state after its prefix. With caches, states are those of the caches.
#pragma once

#include "experiments/model/decoder.h"

namespace tare {

void MixMamba(const LayerCall& call);
void MixMemory(const LayerCall& call);

// The scan's parameters of one layer; names are those of the family's vectors, A as stored: A_log [C, N].
struct ScanNames {
  std::string_view conv, conv_bias, delta_bias, a_log, d;
};
ScanParameters ScanParametersOf(const LayerWeights& weights, const ScanNames& names, const ModelConfig& config);

}  // namespace tare
