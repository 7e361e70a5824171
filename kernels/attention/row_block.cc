// SPDX-License-Identifier: Apache-2.0
// See row_block.h.
#include "kernels/attention/row_block.h"

#include <algorithm>

namespace tare {
namespace {

KeyRange KeysOf(const AttentionProblem& p, int64_t row) { return p.mask.Keys(row, p.q.tokens, p.k.tokens); }

}  // namespace

RowBlock BlockOfRows(const AttentionProblem& p, int rows, int64_t row_blocks, int64_t unit) {
  RowBlock block;
  block.first = (row_blocks - 1 - unit % row_blocks) * rows;
  block.count = static_cast<int>(std::min<int64_t>(rows, p.q.tokens - block.first));
  block.begin_tile = KeysOf(p, block.first).begin / kTile;
  block.end_tile = std::max(block.begin_tile, RoundUp(KeysOf(p, block.first + block.count - 1).end, kTile) / kTile);
  return block;
}

// Later rows never see less at the end, nor more at the beginning.
bool MaskTile(const AttentionProblem& p, const RowBlock& block, int rows, int64_t tile, int32_t* begin, int32_t* end) {
  const int64_t key = tile * kTile;
  if (KeysOf(p, block.first + block.count - 1).begin <= key && KeysOf(p, block.first).end >= key + kTile) return false;
  for (int r = 0; r < rows; ++r) {
    const KeyRange keys = r < block.count ? KeysOf(p, block.first + r) : KeyRange{};
    begin[r] = static_cast<int32_t>(std::clamp<int64_t>(keys.begin - key, 0, kTile));
    end[r] = static_cast<int32_t>(std::clamp<int64_t>(keys.end - key, 0, kTile));
  }
  return true;
}

}  // namespace tare
