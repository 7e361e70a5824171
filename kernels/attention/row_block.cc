// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/row_block.h"

namespace tare {

int RowsFor(int64_t queries) {
  return static_cast<int>(std::clamp<int64_t>(RoundUp(queries, kRowStep), kRowStep, kLargestRows));
}

RowBlock BlockOfRows(const AttentionProblem& problem, int rows, int64_t row_blocks, int64_t index) {
  RowBlock block;
  block.head = static_cast<int>(index / row_blocks);
  block.first = (row_blocks - 1 - index % row_blocks) * rows;
  block.count = static_cast<int>(std::min<int64_t>(rows, problem.q.tokens - block.first));
  block.begin_tile = problem.Keys(block.first).begin / kTile;
  const int64_t end = problem.Keys(block.first + block.count - 1).end;
  block.end_tile = std::max(block.begin_tile, CeilDiv(end, kTile));
  return block;
}

// Later rows never see less at the end, nor more at the beginning.
bool MaskTile(const AttentionProblem& problem, const RowBlock& block, int rows, int64_t tile, int32_t* begin,
              int32_t* end) {
  const int64_t key = tile * kTile;
  if (problem.Keys(block.first + block.count - 1).begin <= key && problem.Keys(block.first).end >= key + kTile)
    return false;
  for (int r = 0; r < rows; ++r) {
    const KeyRange keys = r < block.count ? problem.Keys(block.first + r) : KeyRange{};
    begin[r] = static_cast<int32_t>(std::clamp<int64_t>(keys.begin - key, 0, kTile));
    end[r] = static_cast<int32_t>(std::clamp<int64_t>(keys.end - key, 0, kTile));
  }
  return true;
}

void LoadLambda(const AttentionProblem& problem, const RowBlock& block, int rows, float* lambda) {
  const bool differential = problem.heads[static_cast<size_t>(block.head)].Differential();
  for (int r = 0; r < rows; ++r)
    lambda[r] = r < block.count && differential ? problem.lambda.At(block.first + r, block.head) : 0.0f;
}

void WriteZeros(const AttentionProblem& problem, const RowBlock& block) {
  const FloatHeads<float>& out = problem.out;
  for (int64_t t = block.first; t < block.first + block.count; ++t) {
    if (out.halves == nullptr)
      std::fill_n(out.Row(t, block.head), out.width, 0.0f);
    else
      std::fill_n(out.halves + out.Offset(t, block.head), out.width, uint16_t{0});
    for (int map = 0; map < problem.heads[static_cast<size_t>(block.head)].Maps(); ++map)
      WriteLse(problem, t, block.head, map, 0);
  }
}

}  // namespace tare
