// SPDX-License-Identifier: Apache-2.0
// See fused_attention.h.
#include "kernels/attention/fused_attention.h"

#include <algorithm>

#include "kernels/attention/arena.h"
#include "kernels/attention/float_stage.h"
#include "kernels/attention/output_stage.h"
#include "kernels/attention/row_block.h"
#include "kernels/product/tile_product.h"
#include "quant/base/error.h"
#include "quant/base/parallel.h"

namespace tare {
namespace {

constexpr float kLog2E = 1.44269504f;
constexpr int64_t kMostKept = int64_t{3} << 20;

struct Sizes {
  int d = 0;
  int width = 0;  // of a V slice
  int slices = 0;
  int64_t tiles = 0;
  int rows = 0;  // of a unit
  int64_t row_blocks = 0;
};

struct Packed {
  float* k;  // [k heads][tiles][d][64]
  float* v;  // [v heads][tiles * 64][width]
};

struct Scratch {
  float* q;       // [rows][d] of one map
  float* sums;    // [rows][64]
  float* p;       // [2][tiles][rows][64]
  float* max;     // [2][tiles][rows], becomes the weights
  float* p_sum;   // [2][tiles][rows]
  float* lambda;  // [rows]
  float* ones;    // [rows]
  float* out;     // [rows][slices * width]
  int32_t* begin;
  int32_t* end;
};

Sizes SizesOf(const AttentionProblem& p) {
  Sizes s;
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
  x.k = arena.Take<float>(p.k.heads * s.tiles * kTile * s.d);
  x.v = arena.Take<float>(p.v.heads * s.tiles * kTile * s.width);
  return x;
}

Scratch CarveScratch(Arena& arena, const Sizes& s) {
  Scratch x{};
  x.q = arena.Take<float>(int64_t{s.rows} * s.d);
  x.sums = arena.Take<float>(s.rows * kTile);
  x.p = arena.Take<float>(2 * s.tiles * s.rows * kTile);
  x.max = arena.Take<float>(2 * s.tiles * s.rows);
  x.p_sum = arena.Take<float>(2 * s.tiles * s.rows);
  x.lambda = arena.Take<float>(s.rows);
  x.ones = arena.Take<float>(s.rows);
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
  return {TileProduct({ProductTypes::kF32, s.rows, kTile, s.d, s.d, kTile, kTile}),
          TileProduct({ProductTypes::kF32, s.rows, s.width, kTile, kTile, s.width, out}),
          TileProduct({ProductTypes::kF32, s.rows, s.width, kTile, kTile, s.width, out, ProductStore::kAdd})};
}

// A tile of all heads of K and V.
void PackTile(const AttentionProblem& p, const Sizes& s, const Packed& x, int64_t tile) {
  const int count = static_cast<int>(std::min<int64_t>(kTile, p.k.tokens - tile * kTile));
  for (int head = 0; head < p.k.heads; ++head)
    TransposeKeys(p.k.Row(tile * kTile, head), p.k.token_stride, count, s.d,
                  x.k + (head * s.tiles + tile) * kTile * s.d);
  for (int head = 0; head < p.v.heads; ++head) {
    float* v = x.v + (head * s.tiles + tile) * kTile * s.width;
    for (int i = 0; i < count; ++i) std::copy_n(p.v.Row(tile * kTile + i, head), s.width, v + i * s.width);
    std::fill_n(v + count * s.width, (kTile - count) * s.width, 0.0f);
  }
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
    const int maps = head_.Differential() ? 2 : 1;
    for (int r = 0; r < s_.rows; ++r)
      x_.lambda[r] = r < rows_.count && maps == 2 ? p_.lambda.At(rows_.first + r, index_) : 0.0f;
    for (int map = 0; map < maps; ++map) Scores(map);
    for (int64_t tile = rows_.begin_tile; tile < rows_.end_tile; ++tile) AddTile(tile);
    Write();
  }

 private:
  int64_t At(int map, int64_t tile) const { return (map * s_.tiles + tile) * s_.rows; }

  void Scores(int map) const {
    const int q = map == 0 ? head_.q1 : head_.q2, k = map == 0 ? head_.k1 : head_.k2;
    for (int r = 0; r < s_.rows; ++r)
      std::copy_n(p_.q.Row(rows_.first + std::min(r, rows_.count - 1), q), s_.d, x_.q + r * s_.d);
    for (int64_t tile = rows_.begin_tile; tile < rows_.end_tile; ++tile) {
      const bool masked = MaskTile(p_, rows_, s_.rows, tile, x_.begin, x_.end);
      products_.scores.Run(x_.q, k_.k + (k * s_.tiles + tile) * kTile * s_.d, x_.sums);
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
    for (int slice = 0; slice < head_.VSlices(); ++slice) {
      const TileProduct& product = tile == rows_.begin_tile ? products_.first : products_.more;
      product.Run(p1, k_.v + (head_.v[slice] * s_.tiles + tile) * kTile * s_.width,
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

size_t FusedWorkspaceBytes(const AttentionProblem& problem) {
  CheckProblem(problem);
  const Sizes sizes = SizesOf(problem);
  Arena arena(0);
  CarvePacked(arena, sizes, problem);
  for (int t = 0; t < Threads(); ++t) CarveScratch(arena, sizes);
  return arena.used();
}

void FusedAttention(const AttentionProblem& problem, std::span<std::byte> workspace) {
  const uintptr_t base = reinterpret_cast<uintptr_t>(workspace.data());
  if (base % 64 != 0) Fail("attention workspace: got a pointer off the 64-byte boundary");
  if (const size_t bytes = FusedWorkspaceBytes(problem); workspace.size() < bytes)
    Fail("attention workspace: got {} bytes, expected {}", workspace.size(), bytes);
  if (problem.q.tokens == 0) return;
  const Sizes sizes = SizesOf(problem);
  Arena arena(base), one(0);
  const Packed packed = CarvePacked(arena, sizes, problem);
  CarveScratch(one, sizes);
  const uintptr_t scratch_base = base + arena.used();
  ParallelFor(static_cast<size_t>(sizes.tiles),
              [&](size_t tile, int) { PackTile(problem, sizes, packed, static_cast<int64_t>(tile)); });
  const Products products = ProductsOf(sizes);
  ParallelFor(problem.heads.size() * static_cast<size_t>(sizes.row_blocks), [&](size_t unit, int thread) {
    Arena own(scratch_base + static_cast<uintptr_t>(thread) * one.used());
    const Scratch scratch = CarveScratch(own, sizes);
    Unit(problem, sizes, packed, products, scratch, static_cast<int64_t>(unit)).Run();
  });
}

}  // namespace tare
