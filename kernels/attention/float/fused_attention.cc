// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/float/fused_attention.h"

#include <algorithm>
#include <cmath>

#include "kernels/attention/float/fused_block.h"
#include "kernels/attention/row_block.h"
#include "kernels/elementwise/rows.h"

namespace tare {
namespace {

// The caller's memory: K and V of all heads, and a scratch for each thread.
struct Layout {
  Layout(const AttentionProblem& a_problem, ProductTypes types)
      : problem((CheckWidths(a_problem), CheckSoftmax("fused attention", a_problem), a_problem)),
        kernel(problem, types, problem.q.tokens, problem.k.tokens, FusedValues::kTiles),
        row_blocks(CeilDiv(problem.q.tokens, kernel.rows)) {}

  int64_t KeyBytes() const { return kernel.tiles * kernel.operands.KeyBytes(problem.k.width); }      // of a head
  int64_t ValueBytes() const { return kernel.tiles * kernel.operands.ValueBytes(problem.v.width); }  // the same

  struct Packed {
    std::byte *k, *v;  // [heads][tiles]
  };
  Packed TakePacked(Arena& arena) const {
    return {arena.Take<std::byte>(problem.k.heads * KeyBytes()), arena.Take<std::byte>(problem.v.heads * ValueBytes())};
  }
  FusedScratch TakeScratch(Arena& arena) const { return kernel.TakeScratch(arena); }

  PackedHead HeadOf(const Packed& packed, int head) const {
    const OutputHead& row = problem.heads[static_cast<size_t>(head)];
    PackedHead of;
    for (int map = 0; map < row.Maps(); ++map) of.k[map] = packed.k + row.K(map) * KeyBytes();
    for (int slice = 0; slice < row.VSlices(); ++slice) of.v[slice] = packed.v + row.v[slice] * ValueBytes();
    return of;
  }

  const AttentionProblem& problem;
  FusedKernel kernel;
  int64_t row_blocks;
};

TileRows RowsOfTile(const FloatHeads<const float>& x, int head, int64_t tile, float* wide) {
  TileRows rows{};
  const HeadsView<const float> view = Widened(x, head, tile * kTile, kTile, wide);
  for (int64_t i = 0; i < std::min<int64_t>(kTile, view.tokens - tile * kTile); ++i)
    rows[i] = view.Row(tile * kTile + i, head);
  return rows;
}

// Rows that cannot be computed are NaN or infinite: throws Error where that is not what the inputs add up to.
void CheckRows(const AttentionProblem& p, const RowBlock& block, const float* row) {
  if (block.begin_tile == block.end_tile) return;
  for (int64_t t = block.first; t < block.first + block.count; ++t, row += p.out.width) {
    if (std::isfinite(AbsMax(row, static_cast<size_t>(p.out.width)))) continue;
    CheckFinite(p);
    if (std::any_of(row, row + p.out.width, [](float x) { return std::isnan(x); }))
      FailLogit(t, p.heads[static_cast<size_t>(block.head)].q1);
  }
}

// A tile of all heads of K and V. wide: memory of a thread.
void PackTile(const Layout& l, const Layout::Packed& packed, int64_t tile, float* wide) {
  const FloatHeads<const float>&k = l.problem.k, &v = l.problem.v;
  const FloatOperands& to = l.kernel.operands;
  for (int head = 0; head < k.heads; ++head)
    to.Keys(RowsOfTile(k, head, tile, wide), k.width, packed.k + head * l.KeyBytes() + tile * to.KeyBytes(k.width));
  for (int head = 0; head < v.heads; ++head)
    to.Values(RowsOfTile(v, head, tile, wide), v.width,
              packed.v + head * l.ValueBytes() + tile * to.ValueBytes(v.width));
}

}  // namespace

size_t FusedWorkspaceBytes(const AttentionProblem& problem, ProductTypes types) {
  return BytesOf(Layout(problem, types));
}

void FusedAttention(const AttentionProblem& problem, std::span<std::byte> memory, ProductTypes types) {
  const Layout layout(problem, types);
  const Workspace workspace(layout, memory);
  if (problem.q.tokens == 0) return;
  CheckMemory(problem);
  const Layout::Packed packed = workspace.Packed();
  ParallelFor(static_cast<size_t>(layout.kernel.tiles), [&](size_t tile, int thread) {
    PackTile(layout, packed, static_cast<int64_t>(tile), workspace.Scratch(thread).wide);
  });
  ParallelFor(problem.heads.size() * static_cast<size_t>(layout.row_blocks), [&](size_t index, int thread) {
    const ProductScope tiles;
    const RowBlock block = BlockOfRows(problem, layout.kernel.rows, layout.row_blocks, static_cast<int64_t>(index));
    const FusedScratch scratch = workspace.Scratch(thread);
    RunFused({layout.kernel, problem, block, layout.HeadOf(packed, block.head), scratch, {}});
    CheckRows(problem, block, scratch.out);
  });
}

}  // namespace tare
