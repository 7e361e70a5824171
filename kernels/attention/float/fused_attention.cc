// SPDX-License-Identifier: Apache-2.0
// See fused_attention.h.
#include "kernels/attention/float/fused_attention.h"

#include <algorithm>

#include "kernels/attention/float/float_operands.h"
#include "kernels/attention/float/float_stage.h"
#include "kernels/attention/output_stage.h"
#include "kernels/attention/row_block.h"
#include "kernels/attention/row_exp2.h"
#include "kernels/attention/workspace.h"

namespace tare {
namespace {

struct Packed {
  std::byte* k;  // [k heads][tiles], KeyBytes each
  std::byte* v;  // [v heads][tiles], ValueBytes each
};

struct Scratch;

struct Layout {
  Layout(const AttentionProblem& a_problem, ProductTypes types) : problem(a_problem), operands(types) {
    CheckWidths(problem);
    tiles = RoundUp(problem.k.tokens, kTile) / kTile;
    rows = RowsFor(problem.q.tokens);
    while (rows > kRowStep && 2 * tiles * kTile * rows * int64_t{sizeof(float)} > kMostKept) rows -= kRowStep;
    row_blocks = RoundUp(problem.q.tokens, rows) / rows;
    slice_stride = RoundUp(problem.v.width, kTile);
    out_stride = problem.out.width / problem.v.width * slice_stride;
  }

  Packed TakePacked(Arena& arena) const {
    return {.k = arena.Take<std::byte>(problem.k.heads * tiles * operands.KeyBytes(problem.k.width)),
            .v = arena.Take<std::byte>(problem.v.heads * tiles * operands.ValueBytes(problem.v.width))};
  }

  Scratch TakeScratch(Arena& arena) const;

  std::byte* KeyTile(const Packed& packed, int64_t head, int64_t tile) const {
    return packed.k + (head * tiles + tile) * operands.KeyBytes(problem.k.width);
  }
  std::byte* ValueTile(const Packed& packed, int64_t head, int64_t tile) const {
    return packed.v + (head * tiles + tile) * operands.ValueBytes(problem.v.width);
  }

  const AttentionProblem& problem;
  FloatOperands operands;
  int64_t tiles = 0;
  int rows = 0;  // of a block
  int64_t row_blocks = 0;
  int64_t slice_stride = 0;  // of V's slices in a row of out, padded to whole vectors: WriteOutput reads them so
  int64_t out_stride = 0;
};

// What one thread works with. Arrays [2] have an entry per map.
struct Scratch {
  Arena arena;
  const Layout& l;
  std::byte* q = arena.Take<std::byte>(l.rows * l.operands.RowBytes(l.problem.q.width));  // [rows], of one map
  float* sums = arena.Take<float>(l.rows * kTile);                                        // [rows][64] of a product
  int32_t* begin = arena.Take<int32_t>(l.rows);                     // [rows] of the keys of a tile that are visible
  int32_t* end = arena.Take<int32_t>(l.rows);                       // [rows]
  float* exps = arena.Take<float>(2 * l.tiles * l.rows * kTile);    // [2][tiles][rows][64]
  float* tile_max = arena.Take<float>((2 * l.tiles + 1) * l.rows);  // [2][tiles][rows], and a tile for a sink
  float* weights = tile_max;  // what 1 of each tile's exps is worth replaces its maxima
  float* exp_sums = arena.Take<float>((2 * l.tiles + 1) * l.rows);  // the same
  float* lambda = arena.Take<float>(l.rows);                        // [rows]
  // [rows][64]: a tile's difference in bf16; none for f32
  std::byte* coded = arena.Take<std::byte>(l.operands.Converts() ? l.rows * l.operands.RowBytes(kTile) : 0);
  float* out = arena.Take<float>(l.rows * l.out_stride);  // [rows][out_stride]
  float* ones = arena.Take<float>(l.rows);                // [rows]
};

Scratch Layout::TakeScratch(Arena& taken) const {
  const Scratch scratch{taken, *this};
  taken = scratch.arena;
  return scratch;
}

struct Products {
  explicit Products(const Layout& l)
      : scores(ShapeOf(l, kTile, l.operands.Depth(l.problem.q.width), kTile)),
        first(ShapeOf(l, l.problem.v.width, kTile, l.out_stride)),
        more(ShapeOf(l, l.problem.v.width, kTile, l.out_stride, ProductStore::kAdd)) {}

  static ProductShape ShapeOf(const Layout& l, int n, int k, int64_t ldc,
                              ProductStore store = ProductStore::kOverwrite) {
    return {l.operands.types(), l.rows, n, k, k, n, ldc, store};
  }

  TileProduct scores, first, more;  // Q K, and the difference times V for a row's first tile and those after it
};

// A tile of all heads of K and V.
void PackTile(const Layout& l, const Packed& packed, int64_t tile) {
  const HeadsView<const float>&k = l.problem.k, &v = l.problem.v;
  const int count = static_cast<int>(std::min<int64_t>(kTile, k.tokens - tile * kTile));
  for (int head = 0; head < k.heads; ++head)
    l.operands.Keys(k.Row(tile * kTile, head), k.token_stride, count, k.width, l.KeyTile(packed, head, tile));
  for (int head = 0; head < v.heads; ++head)
    l.operands.Values(v.Row(tile * kTile, head), v.token_stride, count, v.width, l.ValueTile(packed, head, tile));
}

class FusedBlock {
 public:
  FusedBlock(const Layout& layout, const Packed& packed, const Products& products, const Scratch& scratch,
             int64_t index)
      : layout_(layout),
        problem_(layout.problem),
        packed_(packed),
        products_(products),
        scratch_(scratch),
        rows_(layout.rows),
        block_(BlockOfRows(problem_, rows_, layout.row_blocks, index)),
        head_(problem_.heads[static_cast<size_t>(block_.head)]) {}

  void Run() const {
    if (block_.begin_tile == block_.end_tile) return WriteZeros(problem_, block_);
    LoadLambda(problem_, block_, rows_, scratch_.lambda);
    for (int map = 0; map < head_.Maps(); ++map) Scores(map);
    for (int64_t tile = block_.begin_tile; tile < block_.end_tile; ++tile) AddTile(tile);
    Write();
  }

 private:
  int64_t At(int map, int64_t tile) const { return (map * layout_.tiles + tile) * rows_; }

  void Scores(int map) const {
    const int width = problem_.q.width;
    for (int r = 0; r < rows_; ++r)
      layout_.operands.Row(problem_.q.Row(block_.first + std::min(r, block_.count - 1), head_.Q(map)), width,
                           scratch_.q + r * layout_.operands.RowBytes(width));
    for (int64_t tile = block_.begin_tile; tile < block_.end_tile; ++tile) {
      const bool masked = MaskTile(problem_, block_, rows_, tile, scratch_.begin, scratch_.end);
      products_.scores.Run(scratch_.q, layout_.KeyTile(packed_, head_.K(map), tile), scratch_.sums);
      FloatScores({.rows = rows_,
                   .sums = scratch_.sums,
                   .factor = problem_.scale * kLog2E,
                   .begin = masked ? scratch_.begin : nullptr,
                   .end = masked ? scratch_.end : nullptr,
                   .exps = scratch_.exps + At(map, tile) * kTile,
                   .max = scratch_.tile_max + At(map, tile),
                   .exp_sums = scratch_.exp_sums + At(map, tile)});
    }
    const int64_t first = At(map, block_.begin_tile);
    int64_t tiles = block_.end_tile - block_.begin_tile;
    if (!problem_.sinks.empty()) {  // one more tile, of one key; map 2 may overwrite what map 1's becomes
      std::fill_n(scratch_.tile_max + first + tiles * rows_, rows_, problem_.Sink(head_.Q(map)) * kLog2E);
      std::fill_n(scratch_.exp_sums + first + tiles * rows_, rows_, 1.0f);
      ++tiles;
    }
    FloatWeights(rows_, static_cast<int>(tiles), map == 0 ? nullptr : scratch_.lambda, scratch_.tile_max + first,
                 scratch_.exp_sums + first, scratch_.weights + first);
  }

  void AddTile(int64_t tile) const {
    float* difference = scratch_.exps + At(0, tile) * kTile;  // in place of map 1's exponentials
    FloatDifference({.rows = rows_,
                     .exps1 = difference,
                     .exps2 = head_.Differential() ? scratch_.exps + At(1, tile) * kTile : nullptr,
                     .weights1 = scratch_.weights + At(0, tile),
                     .weights2 = scratch_.weights + At(1, tile),
                     .difference = difference});
    const void* operand = difference;
    if (layout_.operands.Converts()) {
      layout_.operands.Row(difference, rows_ * kTile, scratch_.coded);
      operand = scratch_.coded;
    }
    const TileProduct& product = tile == block_.begin_tile ? products_.first : products_.more;
    for (int slice = 0; slice < head_.VSlices(); ++slice)
      product.Run(operand, layout_.ValueTile(packed_, head_.v[slice], tile),
                  scratch_.out + slice * layout_.slice_stride);
  }

  void Write() const {
    std::fill_n(scratch_.ones, rows_, 1.0f);
    for (int slice = 0; slice < head_.VSlices(); ++slice) {
      WriteOutput({.rows = block_.count,
                   .width = problem_.v.width,
                   .out1 = scratch_.out + slice * layout_.slice_stride,
                   .stride = layout_.out_stride,
                   .factors1 = scratch_.ones,
                   .to = problem_.out.Row(block_.first, block_.head) + slice * problem_.v.width,
                   .to_stride = problem_.out.token_stride});
    }
  }

  const Layout& layout_;
  const AttentionProblem& problem_;
  const Packed& packed_;
  const Products& products_;
  const Scratch& scratch_;
  const int rows_;
  const RowBlock block_;
  const OutputHead& head_;
};

Layout LayoutOf(const AttentionProblem& problem, ProductTypes types) {
  CheckProblem(problem);
  return {problem, types};
}

}  // namespace

size_t FusedWorkspaceBytes(const AttentionProblem& problem, ProductTypes types) {
  return BytesOf(LayoutOf(problem, types));
}

void FusedAttention(const AttentionProblem& problem, std::span<std::byte> memory, ProductTypes types) {
  const Layout layout = LayoutOf(problem, types);
  const Workspace workspace(layout, memory);
  if (problem.q.tokens == 0) return;
  const Packed packed = workspace.Packed();
  const Products products(layout);
  ParallelFor(static_cast<size_t>(layout.tiles),
              [&](size_t tile, int) { PackTile(layout, packed, static_cast<int64_t>(tile)); });
  ParallelFor(problem.heads.size() * static_cast<size_t>(layout.row_blocks), [&](size_t index, int thread) {
    const ProductScope tiles;
    FusedBlock(layout, packed, products, workspace.Scratch(thread), static_cast<int64_t>(index)).Run();
  });
}

}  // namespace tare
