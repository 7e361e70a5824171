// SPDX-License-Identifier: Apache-2.0
// Q, K and V from f32 straight to the codes and layouts that the products read. Every value is rounded by the rule of
// quant/format/round.h.
//
//   Q  u8 [rows][d4]                      code + 128; d4 = d rounded up to 4, the rest 128
//
//   K  s8 [tile][d4 / 4][64][4]           tile of 64 keys: for 4 channels at a time, the 4 codes of each key side by
//                                         side, keys in the order of tile_order.h; zeros after the last key
//      offsets s32 [key]                  -128 * sum of the key's codes; the tile's keys in the same order
//      scales f32 [key]
//
//   V  s8 [column tile][tile][16][64][4]  64 keys x 64 columns: for 4 keys at a time, the 4 codes of each column side
//                                         by side
//      scales f32 [block][columns]
//      sums s32 [tile + 1][columns]       of the codes of all tiles before, from the block's first
#pragma once

#include <cstdint>

#include "kernels/attention/heads.h"
#include "kernels/attention/integer/row_codes.h"
#include "kernels/attention/row_block.h"
#include "quant/format/format.h"

namespace tare {

// Rows first .. first + count - 1 of a head; codes [count][RoundUp(d, 4)], scales [count]. smooth: [d] subtracted
// from each, or null. Throws Error naming the place of a NaN or Inf.
void PackQueries(const HeadsView<const float>& q, int head, int64_t first, int count, Format format,
                 const float* smooth, uint8_t* codes, float* scales);

// Keys first .. first + 3 of a head, first a multiple of 4; those after the last become zeros. smooth: [d] subtracted
// from each, or null. codes, offsets and scales: their tile's.
void PackFourKeys(const HeadsView<const float>& k, int head, int64_t first, Format format, const float* smooth,
                  int8_t* codes, int32_t* offsets, float* scales);

// Largest |v - smooth| of each column over keys first .. first + count - 1; out [RoundUp(width, 64)], zeros after the
// last column.
void ValueAbsMax(const HeadsView<const float>& v, int head, int64_t first, int64_t count, const float* smooth,
                 float* out);

// One tile of V with its block's absmax [columns], columns = RoundUp(width, 64). codes: the tile's in the first column
// tile, the next one column_tile_bytes after it. sums: [columns], the tile's are added.
void PackValueTile(const HeadsView<const float>& v, int head, int64_t tile, Format format, const float* smooth,
                   const float* absmax, int8_t* codes, int64_t column_tile_bytes, int32_t* sums);

}  // namespace tare
