// SPDX-License-Identifier: Apache-2.0
// The units of attention's work: blocks of query rows of one output head, against tiles of 64 keys. Says which tiles a
// block needs and which keys each row sees.
#pragma once

#include <cstdint>

#include "kernels/attention/heads.h"
#include "quant/base/integers.h"

namespace tare {

inline constexpr int kTile = 64;     // keys of a tile, and columns of V in a product
inline constexpr int kRowStep = 16;  // rows of a block are a multiple of this, computed sixteen at a time
inline constexpr int kLargestRows = 64;

// Rows of a block where nothing asks for fewer.
int RowsFor(int64_t queries);

struct RowBlock {
  int head = 0;       // output head
  int64_t first = 0;  // query row
  int count = 0;      // rows that exist
  int64_t begin_tile = 0;
  int64_t end_tile = 0;  // == begin_tile: the rows see nothing
};

// Block `index` of all, row_blocks blocks of `rows` rows for each output head. The last rows come first: they see the
// most keys, so that the blocks handed out last are the short ones.
RowBlock BlockOfRows(const AttentionProblem& problem, int rows, int64_t row_blocks, int64_t index);

// Writes the visible keys begin[r] .. end[r] - 1 of a tile for `rows` rows, none for those that do not exist; false,
// and nothing written, if all rows see all 64.
bool MaskTile(const AttentionProblem& problem, const RowBlock& block, int rows, int64_t tile, int32_t* begin,
              int32_t* end);

// lambda [rows] of a block's rows; 0 for those that do not exist, and for a head with one map.
void LoadLambda(const AttentionProblem& problem, const RowBlock& block, int rows, float* lambda);

// The output of rows that see nothing.
void WriteZeros(const AttentionProblem& problem, const RowBlock& block);

}  // namespace tare
