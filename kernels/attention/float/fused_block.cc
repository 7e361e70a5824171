// SPDX-License-Identifier: Apache-2.0
// See fused_block.h.
#include "kernels/attention/float/fused_block.h"

#include <algorithm>

#include "kernels/attention/float/float_stage.h"
#include "kernels/attention/row_exp2.h"
#include "kernels/elementwise/rows.h"

namespace tare {

// Rows of keys lie 16 values apart, so that they do not fall on the same cache sets. Tiles take V1's attention of 2,048
// tokens 5 % less time than rows.
FusedKernel::FusedKernel(const AttentionProblem& problem, ProductTypes types, int64_t queries, int64_t keys,
                         FusedValues order)
    : operands(types),
      q_width(problem.q.width),
      v_width(problem.v.width),
      out_width(problem.out.width),
      tiles(CeilDiv(keys, kTile)),
      rows(RowsFor(queries)) {
  CheckProblem(problem);
  for (const OutputHead& head : problem.heads) maps = std::max(maps, head.Maps());
  // Fewer rows read K and V more often: of 32,768 keys 16 rows take 1.4 times as long as 64.
  while (rows > kLargestRows / maps && maps * tiles * kTile * rows * int64_t{sizeof(float)} > kMostKept)
    rows -= kRowStep;
  const int64_t row = tiles * kTile + 16;
  map_values = rows * row;
  stride = order == FusedValues::kRows ? row : kTile;
  step = order == FusedValues::kRows ? kTile : kTile * rows;
  const int depth = operands.Depth(q_width);
  for (int m = kRowStep; m <= rows; m += kRowStep) {
    const auto product = [&](int n, int k, int64_t lda, int64_t ldc, ProductStore store) {
      return TileProduct({types, m, n, k, lda, n, ldc, store});
    };
    products[static_cast<size_t>(m / kRowStep - 1)] = {
        product(kTile, depth, depth, stride, ProductStore::kOverwrite),
        product(v_width, kTile, stride, out_width, ProductStore::kOverwrite),
        product(v_width, kTile, stride, out_width, ProductStore::kAdd)};
  }
}

FusedScratch FusedKernel::TakeScratch(Arena& arena) const {
  const int64_t kept = (maps * tiles + 1) * rows;
  return {.q = arena.Take<std::byte>(rows * operands.RowBytes(q_width)),
          .begin = arena.Take<int32_t>(rows),
          .end = arena.Take<int32_t>(rows),
          .values = arena.Take<float>(maps * map_values),
          .max = arena.Take<float>(kept),
          .exp_sums = arena.Take<float>(kept),
          .lambda = arena.Take<float>(rows),
          .coded = arena.Take<std::byte>(operands.Converts() ? rows * operands.RowBytes(kTile) : 0),
          .out = arena.Take<float>(rows * out_width)};
}

FusedBlock::FusedBlock(const FusedKernel& kernel, const AttentionProblem& problem, const RowBlock& block,
                       const PackedHead& packed, const FusedScratch& scratch, const Looks& looks)
    : kernel_(kernel),
      problem_(problem),
      block_(block),
      packed_(packed),
      scratch_(scratch),
      looks_(looks),
      head_(problem.heads[static_cast<size_t>(block.head)]),
      rows_(static_cast<int>(RoundUp(block.count, kRowStep))),
      products_(*kernel.products[static_cast<size_t>(rows_ / kRowStep - 1)]) {}

template <typename Visit>
void FusedBlock::ForTiles(Visit visit) const {
  for (int64_t tile = block_.begin_tile; tile < block_.end_tile; ++tile) visit(tile);
}

float* FusedBlock::Tile(int map, int64_t tile) const {
  return scratch_.values + map * kernel_.map_values + tile * kernel_.step;
}

int64_t FusedBlock::At(int map, int64_t tile) const { return (map * kernel_.tiles + tile) * rows_; }

ShownRows FusedBlock::Shown(int map) const { return {map, Tile(map, 0), kernel_.stride, nullptr}; }

void FusedBlock::LoadQueries(int map) const {
  const int width = problem_.q.width;
  for (int r = 0; r < rows_; ++r)
    kernel_.operands.Row(problem_.q.Row(block_.first + std::min(r, block_.count - 1), head_.Q(map)), problem_.scale,
                         width, scratch_.q + r * kernel_.operands.RowBytes(width));
}

void FusedBlock::TileLogits(int map, int64_t tile) const {
  const std::byte* keys = packed_.k[map] + tile * kernel_.operands.KeyBytes(problem_.k.width);
  products_.logits.Run(scratch_.q, keys, Tile(map, tile));
}

void FusedBlock::AllLogits(int map) const {
  ForTiles([&](int64_t tile) { TileLogits(map, tile); });
  looks_.logits(Shown(map));
}

void FusedBlock::Exponentials(int map) const {
  if (looks_.logits) AllLogits(map);
  ForTiles([&](int64_t tile) {
    if (!looks_.logits) TileLogits(map, tile);
    const bool masked = MaskTile(problem_, block_, rows_, tile, scratch_.begin, scratch_.end);
    FloatScores({.rows = rows_,
                 .values = Tile(map, tile),
                 .stride = kernel_.stride,
                 .begin = masked ? scratch_.begin : nullptr,
                 .end = masked ? scratch_.end : nullptr,
                 .max = scratch_.max + At(map, tile),
                 .exp_sums = scratch_.exp_sums + At(map, tile)});
  });
}

// A sink is one more tile, of one key; map 2 may overwrite what map 1's becomes.
void FusedBlock::Weigh(int map) const {
  const int64_t first = At(map, block_.begin_tile), end = At(map, block_.end_tile);
  const bool sink = !problem_.sinks.empty();
  if (sink) {
    std::fill_n(scratch_.max + end, rows_, problem_.Sink(head_.Q(map)) * kLog2E);
    std::fill_n(scratch_.exp_sums + end, rows_, 1.0f);
  }
  FloatWeights(rows_, static_cast<int>((end - first) / rows_ + (sink ? 1 : 0)), scratch_.max + first,
               scratch_.exp_sums + first, scratch_.max + first);
}

// Probabilities in place of their exponentials, worth 1 each.
void FusedBlock::ShowProbs(int map) const {
  ForTiles([&](int64_t tile) {
    float *const values = Tile(map, tile), *const weights = scratch_.max + At(map, tile);
    FloatDifference(
        {.rows = rows_, .stride = kernel_.stride, .exps1 = values, .weights1 = weights, .difference = values});
    std::fill_n(weights, rows_, 1.0f);
  });
  ShownRows shown = Shown(map);
  if (!problem_.sinks.empty()) shown.sink_shares = scratch_.max + At(map, block_.end_tile);
  looks_.probs(shown);
}

// In place of map 1's exponentials.
void FusedBlock::Subtract(int64_t tile) const {
  FloatDifference({.rows = rows_,
                   .stride = kernel_.stride,
                   .exps1 = Tile(0, tile),
                   .exps2 = head_.Differential() ? Tile(1, tile) : nullptr,
                   .weights1 = scratch_.max + At(0, tile),
                   .weights2 = scratch_.max + At(1, tile),
                   .lambda = scratch_.lambda,
                   .difference = Tile(0, tile)});
}

// Tiles of bf16 are not looked at: their rows lie together.
void FusedBlock::TimesV(int64_t tile) const {
  const void* operand = Tile(0, tile);
  if (kernel_.operands.Converts()) {
    ToBf16(Tile(0, tile), static_cast<size_t>(rows_) * kTile, reinterpret_cast<uint16_t*>(scratch_.coded));
    operand = scratch_.coded;
  }
  const TileProduct& product = tile == block_.begin_tile ? products_.first : products_.more;
  const int64_t bytes = kernel_.operands.ValueBytes(problem_.v.width);
  for (int slice = 0; slice < head_.VSlices(); ++slice)
    product.Run(operand, packed_.v[slice] + tile * bytes, scratch_.out + slice * problem_.v.width);
}

void FusedBlock::ShowLogits() const {
  for (int map = 0; map < head_.Maps(); ++map) {
    LoadQueries(map);
    AllLogits(map);
  }
}

void FusedBlock::Run() const {
  if (block_.begin_tile == block_.end_tile) return WriteZeros(problem_, block_);
  LoadLambda(problem_, block_, rows_, scratch_.lambda);
  for (int map = 0; map < head_.Maps(); ++map) {
    LoadQueries(map);
    Exponentials(map);
    Weigh(map);
    if (looks_.probs) ShowProbs(map);
  }
  const bool shown = looks_.difference && head_.Differential();
  if (shown) {
    ForTiles([&](int64_t tile) { Subtract(tile); });
    looks_.difference(Shown(0));
  }
  ForTiles([&](int64_t tile) {
    if (!shown) Subtract(tile);
    TimesV(tile);
  });
  for (int r = 0; r < block_.count; ++r)
    std::copy_n(scratch_.out + r * kernel_.out_width, kernel_.out_width,
                problem_.out.Row(block_.first + r, block_.head));
}

}  // namespace tare
