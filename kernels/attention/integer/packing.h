// SPDX-License-Identifier: Apache-2.0
// Q, K and V from f32 to the codes and layouts that products read; every value rounded by quant/format/round.h.
//
//   Q  u8 [rows][d4]                      code + 128; d4 = d rounded up to 4, the rest 128
//
//   K  s8 [tile][d4 / 4][64][4]           tile of 64 keys: for 4 channels at a time, the 4 codes of each key side by
//                                         side, keys in the order of row_block.h; zeros after the last key
//      offsets s32 [key]                  -128 * sum of the key's codes; the tile's keys in the same order
//      scales f32 [key]
//
//   V  s8 [column tile][tile][16][64][4]  64 keys x 64 columns: for 4 keys at a time, the 4 codes of each column side
//                                         by side
//      scales f32 [block][columns]
//      sums s32 [tile + 1][columns]       of the codes of all tiles before, from the block's first
#pragma once

#include <array>
#include <cstdint>

#include "kernels/attention/heads.h"
#include "kernels/attention/row_block.h"
#include "quant/format/format.h"

namespace tare {

// Four rows of f32 at once to 8-bit codes with a scale each, for Q and K per token.
inline constexpr int kRowsAtOnce = 4;

struct RowCodes {
  // code + offset, offset itself after the last up to a multiple of 64
  alignas(64) uint8_t codes[kRowsAtOnce][kLargestWidth];
  // Sums of the codes, without offset.
  alignas(16) int32_t sums[kRowsAtOnce];
  // Scales; NaN or infinite where a value is not finite, and the row's codes mean nothing then.
  alignas(16) float scales[kRowsAtOnce];
};

enum class CodeOffset { kNone = 0, kUnsigned = 128 };  // signed bytes, or code + 128

// rows[i] has width values, less minus [width] or null. least: magnitudes for scales where they exceed the rows' own.
void ToRowCodes(const std::array<const float*, kRowsAtOnce>& rows, int width, const float* minus, Format format,
                CodeOffset offset, RowCodes& out, const std::array<float, kRowsAtOnce>& least = {});

// Codes of 4 keys, first .. first + 3 (first a multiple of 4), into a tile: groups of 4 channels, [group][64][4].
void InterleaveRows(const RowCodes& rows, int groups, int first, int8_t* tile);

// Rows first .. first + count - 1 of a head; codes [count][RoundUp(d, 4)], scales [count]. smooth: [d] subtracted from
// each, or null. absmax: [tokens] of the head, or null (AttentionPlan). Throws Error naming the place of a NaN or Inf.
void PackQueries(const HeadsView<const float>& q, int head, int64_t first, int count, Format format,
                 const float* smooth, uint8_t* codes, float* scales, const float* absmax = nullptr);

// Keys first .. first + 3 of a head, first a multiple of 4; those after the last become zeros. smooth: [d] subtracted
// from each, or null. codes, offsets and scales: their tile's. absmax: as above.
void PackFourKeys(const HeadsView<const float>& k, int head, int64_t first, Format format, const float* smooth,
                  int8_t* codes, int32_t* offsets, float* scales, const float* absmax = nullptr);

// Largest |v - smooth| per column over keys first .. first + count - 1; out [RoundUp(width, 64)], zeros past the end.
void ValueAbsMax(const HeadsView<const float>& v, int head, int64_t first, int64_t count, const float* smooth,
                 float* out);

// One tile of V with its block's absmax [columns], columns = RoundUp(width, 64). codes: the tile's in the first column
// tile, the next one column_tile_bytes after it. sums: [columns], the tile's are added.
void PackValueTile(const HeadsView<const float>& v, int head, int64_t tile, Format format, const float* smooth,
                   const float* absmax, int8_t* codes, int64_t column_tile_bytes, int32_t* sums);

// The contribution to the logits of a mean that was subtracted from Q: q k = (q - m) k + m k. For each key of a tile,
//
//   bias[key] = key_scale[key] * (m[0] code[0] + m[1] code[1] + ...)      in f32, an FMA per channel, in order
//
// A row of Q - m with a scale below kMeanOnlyScale counts as the mean alone, so every instruction set with FMA gives
// the same bits. K's own mean shifts all logits of a row alike and is left out. Source: SageAttention2, arXiv
// 2411.10958, which smooths Q by blocks of rows; here one frozen vector per head (executed_attention.h). codes: of a
// tile; mean: [width]; key_scales, bias: [64].
void KeyBias(const int8_t* codes, int width, const float* mean, const float* key_scales, float* bias);

}  // namespace tare
