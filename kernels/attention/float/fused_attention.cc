// SPDX-License-Identifier: Apache-2.0
// See fused_attention.h.
#include "kernels/attention/float/fused_attention.h"

#include <algorithm>

#include "kernels/attention/float/float_operands.h"
#include "kernels/attention/float/float_stage.h"
#include "kernels/attention/output_stage.h"
#include "kernels/attention/row_block.h"
#include "kernels/attention/workspace.h"
#include "kernels/product/tile_product.h"
#include "quant/base/error.h"
#include "quant/base/parallel.h"

namespace tare {
namespace {

constexpr float kLog2E = 1.44269504f;
constexpr int64_t kMostKept = int64_t{3} << 20;

struct Sizes {
  FloatOperands operands;
  int d = 0;
  int width = 0;  // of a V slice
  int slices = 0;
  int64_t tiles = 0;
  int rows = 0;  // of a unit
  int64_t row_blocks = 0;
};

struct Packed {
  std::byte* k;  // [k heads][tiles], KeyBytes each
  std::byte* v;  // [v heads][tiles], ValueBytes each
};

struct Scratch {
  std::byte* q;           // [rows], of one map
  float* sums;            // [rows][64]
  float* p;               // [2][tiles][rows][64]
  float* max;             // [2][tiles][rows], becomes the weights
  float* p_sum;           // [2][tiles][rows]
  float* lambda;          // [rows]
  float* ones;            // [rows]
  std::byte* difference;  // [rows][64], where it is not p itself
  float* out;             // [rows][slices * width]
  int32_t* begin;
  int32_t* end;
};

Sizes SizesOf(const AttentionProblem& p, ProductTypes types) {
  CheckWidths(p);
  Sizes s{FloatOperands(types)};
  s.d = p.q.width;
  s.width = p.v.width;
  s.slices = p.out.width / p.v.width;
  s.tiles = RoundUp(p.k.tokens, kTile) / kTile;
  s.rows = static_cast<int>(std::clamp<int64_t>(RoundUp(p.q.tokens, kRowStep), kRowStep, kLargestRows));
  while (s.rows > kRowStep && 2 * s.tiles * kTile * s.rows * 4 > kMostKept) s.rows -= kRowStep;
  s.row_blocks = RoundUp(p.q.tokens, s.rows) / s.rows;
  return s;
}

// Rows of out are padded to whole vectors: WriteOutput reads them so.
int64_t OutStride(const Sizes& s) { return s.slices * RoundUp(s.width, kTile); }

Packed CarvePacked(Arena& arena, const Sizes& s, const AttentionProblem& p) {
  Packed x{};
  x.k = arena.Take<std::byte>(p.k.heads * s.tiles * s.operands.KeyBytes(s.d));
  x.v = arena.Take<std::byte>(p.v.heads * s.tiles * s.operands.ValueBytes(s.width));
  return x;
}

Scratch CarveScratch(Arena& arena, const Sizes& s) {
  Scratch x{};
  x.q = arena.Take<std::byte>(s.rows * s.operands.RowBytes(s.d));
  x.sums = arena.Take<float>(s.rows * kTile);
  x.p = arena.Take<float>(2 * s.tiles * s.rows * kTile);
  x.max = arena.Take<float>(2 * s.tiles * s.rows);
  x.p_sum = arena.Take<float>(2 * s.tiles * s.rows);
  x.lambda = arena.Take<float>(s.rows);
  x.ones = arena.Take<float>(s.rows);
  x.difference = arena.Take<std::byte>(s.operands.Converts() ? s.rows * s.operands.RowBytes(kTile) : 0);
  x.out = arena.Take<float>(s.rows * OutStride(s));
  x.begin = arena.Take<int32_t>(s.rows);
  x.end = arena.Take<int32_t>(s.rows);
  return x;
}

struct Products {
  TileProduct scores, first, more;
};

Products ProductsOf(const Sizes& s) {
  const int64_t out = OutStride(s);
  const ProductTypes types = s.operands.types();
  const int depth = s.operands.Depth(s.d);
  return {TileProduct({types, s.rows, kTile, depth, depth, kTile, kTile}),
          TileProduct({types, s.rows, s.width, kTile, kTile, s.width, out}),
          TileProduct({types, s.rows, s.width, kTile, kTile, s.width, out, ProductStore::kAdd})};
}

// A tile of all heads of K and V.
void PackTile(const AttentionProblem& p, const Sizes& s, const Packed& x, int64_t tile) {
  const int count = static_cast<int>(std::min<int64_t>(kTile, p.k.tokens - tile * kTile));
  for (int head = 0; head < p.k.heads; ++head)
    s.operands.Keys(p.k.Row(tile * kTile, head), p.k.token_stride, count, s.d,
                    x.k + (head * s.tiles + tile) * s.operands.KeyBytes(s.d));
  for (int head = 0; head < p.v.heads; ++head)
    s.operands.Values(p.v.Row(tile * kTile, head), p.v.token_stride, count, s.width,
                      x.v + (head * s.tiles + tile) * s.operands.ValueBytes(s.width));
}

class Unit {
 public:
  Unit(const AttentionProblem& p, const Sizes& s, const Packed& packed, const Products& products,
       const Scratch& scratch, int64_t unit)
      : p_(p),
        s_(s),
        k_(packed),
        products_(products),
        x_(scratch),
        index_(static_cast<int>(unit / s.row_blocks)),
        head_(p.heads[index_]),
        rows_(BlockOfRows(p, s.rows, s.row_blocks, unit)) {}

  void Run() const {
    if (rows_.begin_tile == rows_.end_tile) {
      for (int r = 0; r < rows_.count; ++r) std::fill_n(p_.out.Row(rows_.first + r, index_), p_.out.width, 0.0f);
      return;
    }
    const int maps = head_.Maps();
    for (int r = 0; r < s_.rows; ++r)
      x_.lambda[r] = r < rows_.count && maps == 2 ? p_.lambda.At(rows_.first + r, index_) : 0.0f;
    for (int map = 0; map < maps; ++map) Scores(map);
    for (int64_t tile = rows_.begin_tile; tile < rows_.end_tile; ++tile) AddTile(tile);
    Write();
  }

 private:
  int64_t At(int map, int64_t tile) const { return (map * s_.tiles + tile) * s_.rows; }

  void Scores(int map) const {
    const int q = head_.Q(map), k = head_.K(map);
    for (int r = 0; r < s_.rows; ++r)
      s_.operands.Row(p_.q.Row(rows_.first + std::min(r, rows_.count - 1), q), s_.d,
                      x_.q + r * s_.operands.RowBytes(s_.d));
    for (int64_t tile = rows_.begin_tile; tile < rows_.end_tile; ++tile) {
      const bool masked = MaskTile(p_, rows_, s_.rows, tile, x_.begin, x_.end);
      products_.scores.Run(x_.q, k_.k + (k * s_.tiles + tile) * s_.operands.KeyBytes(s_.d), x_.sums);
      FloatScores({.rows = s_.rows,
                   .sums = x_.sums,
                   .factor = p_.scale * kLog2E,
                   .begin = masked ? x_.begin : nullptr,
                   .end = masked ? x_.end : nullptr,
                   .p = x_.p + At(map, tile) * kTile,
                   .max = x_.max + At(map, tile),
                   .sum = x_.p_sum + At(map, tile)});
    }
    const int64_t first = At(map, rows_.begin_tile);
    FloatWeights(s_.rows, static_cast<int>(rows_.end_tile - rows_.begin_tile), map == 0 ? nullptr : x_.lambda,
                 x_.p_sum + first, x_.max + first);
  }

  void AddTile(int64_t tile) const {
    float* p1 = x_.p + At(0, tile) * kTile;
    const bool two = head_.Differential();
    FloatDifference({.rows = s_.rows,
                     .p1 = p1,
                     .p2 = two ? x_.p + At(1, tile) * kTile : nullptr,
                     .w1 = x_.max + At(0, tile),
                     .w2 = x_.max + At(1, tile)});
    const void* difference = p1;
    if (s_.operands.Converts()) {
      s_.operands.Row(p1, s_.rows * kTile, x_.difference);
      difference = x_.difference;
    }
    for (int slice = 0; slice < head_.VSlices(); ++slice) {
      const TileProduct& product = tile == rows_.begin_tile ? products_.first : products_.more;
      product.Run(difference, k_.v + (head_.v[slice] * s_.tiles + tile) * s_.operands.ValueBytes(s_.width),
                  x_.out + slice * RoundUp(s_.width, kTile));
    }
  }

  void Write() const {
    std::fill_n(x_.ones, s_.rows, 1.0f);
    for (int slice = 0; slice < head_.VSlices(); ++slice) {
      WriteOutput({.rows = rows_.count,
                   .width = s_.width,
                   .first = x_.out + slice * RoundUp(s_.width, kTile),
                   .stride = OutStride(s_),
                   .one = x_.ones,
                   .to = p_.out.Row(rows_.first, index_) + slice * s_.width,
                   .to_stride = p_.out.token_stride});
    }
  }

  const AttentionProblem& p_;
  const Sizes& s_;
  const Packed& k_;
  const Products& products_;
  const Scratch& x_;
  int index_;
  const OutputHead& head_;
  RowBlock rows_;
};

}  // namespace

size_t FusedWorkspaceBytes(const AttentionProblem& problem, ProductTypes types) {
  CheckProblem(problem);
  const Sizes sizes = SizesOf(problem, types);
  Arena arena(0);
  CarvePacked(arena, sizes, problem);
  for (int t = 0; t < Threads(); ++t) CarveScratch(arena, sizes);
  return arena.used();
}

void FusedAttention(const AttentionProblem& problem, std::span<std::byte> workspace, ProductTypes types) {
  const uintptr_t base = reinterpret_cast<uintptr_t>(workspace.data());
  if (base % 64 != 0) Fail("attention workspace: got a pointer off the 64-byte boundary");
  if (const size_t bytes = FusedWorkspaceBytes(problem, types); workspace.size() < bytes)
    Fail("attention workspace: got {} bytes, expected {}", workspace.size(), bytes);
  if (problem.q.tokens == 0) return;
  const Sizes sizes = SizesOf(problem, types);
  Arena arena(base), one(0);
  const Packed packed = CarvePacked(arena, sizes, problem);
  CarveScratch(one, sizes);
  const uintptr_t scratch_base = base + arena.used();
  ParallelFor(static_cast<size_t>(sizes.tiles),
              [&](size_t tile, int) { PackTile(problem, sizes, packed, static_cast<int64_t>(tile)); });
  const Products products = ProductsOf(sizes);
  ParallelFor(problem.heads.size() * static_cast<size_t>(sizes.row_blocks), [&](size_t unit, int thread) {
    const ProductScope tiles;
    Arena own(scratch_base + static_cast<uintptr_t>(thread) * one.used());
    const Scratch scratch = CarveScratch(own, sizes);
    Unit(problem, sizes, packed, products, scratch, static_cast<int64_t>(unit)).Run();
  });
}

}  // namespace tare
