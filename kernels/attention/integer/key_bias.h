// SPDX-License-Identifier: Apache-2.0
// The contribution to the logits of a mean that was subtracted from Q: q k = (q - m) k + m k. For each key of a tile,
//
//   bias[key] = key_scale[key] * (m[0] code[0] + m[1] code[1] + ...)      in f32, an FMA per channel, in order
//
// A row of Q - m with a scale below kMeanOnlyScale (attention_plan.h) is taken for the mean alone. So every instruction
// set that has FMA gives the same bits. K's own mean, where it has one, shifts all logits of a row alike and is left
// out. Source: SageAttention2, arXiv 2411.10958, which smooths Q by blocks of rows; here it is one frozen vector per
// head (prefix_mean.h).
#pragma once

#include <cstdint>

namespace tare {

// codes: of a tile of packing.h; mean: [width]; key_scales, bias: [64].
void KeyBias(const int8_t* codes, int width, const float* mean, const float* key_scales, float* bias);

}  // namespace tare
