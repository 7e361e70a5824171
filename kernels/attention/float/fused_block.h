// SPDX-License-Identifier: Apache-2.0
// Attention in f32, or with bf16 factors, of a block of an output head's query rows: models' own, and the baseline.
//
//   of each map     logits = (s q) k for all tiles of 64 keys; their exponentials, beside each tile's maximum and sum;
//                   then what 1 of a tile's exponentials is worth in the softmax of its row
//   of each tile    P1 - lambda P2, times V: one product where late order has two
//
// Exponentials and sums are f32. A caller may look at the block's attention logits, probabilities and difference before
// they are used, and change them. Looking alone changes no bit of the result.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "kernels/attention/heads.h"
#include "kernels/attention/row_block.h"
#include "kernels/product/tile_product.h"

namespace tare {

// The rows of a tile's keys or values; null, which become zeros, where there is none.
using TileRows = std::array<const float*, kTile>;

// Attention's operands in the layouts of tile_product.h, in f32 or bf16 (to nearest, ties to even):
//
//   a row of Q, times the scale    [depth]             depth: the width, for bf16 rounded up to 2 with a zero
//   a tile of K                    [depth / g][64][g]  64 keys; g = 1 for f32, 2 for bf16
//   a tile of V                    [64 / g][width][g]
class FloatOperands {
 public:
  // Throws Error for types other than kF32 and kBf16.
  explicit FloatOperands(ProductTypes types);

  bool Converts() const { return types_ == ProductTypes::kBf16; }  // f32 rows of 64 are operands as they are
  int Depth(int width) const { return Converts() ? width + width % 2 : width; }
  int64_t RowBytes(int width) const { return Depth(width) * Bytes(); }
  int64_t KeyBytes(int width) const { return kTile * RowBytes(width); }
  int64_t ValueBytes(int width) const { return kTile * width * Bytes(); }

  void Row(const float* x, float scale, int width, std::byte* out) const;
  void Keys(const TileRows& keys, int width, std::byte* out) const;
  void Values(const TileRows& values, int width, std::byte* out) const;

 private:
  int64_t Bytes() const { return Converts() ? 2 : 4; }

  ProductTypes types_;
};

// What rows see of one map, or of the difference: row r of key s at values[r * stride + s].
struct ShownRows {
  int map = 0;  // from 0
  float* values = nullptr;
  int64_t stride = 0;
  const float* sink_shares = nullptr;  // of probs of heads with sinks: [rows] the sink's share
};

// Empty: not looked at. The difference is that of heads with two maps.
struct Looks {
  std::function<void(const ShownRows&)> logits, probs, difference;
};

// K and V of one output head as the products read them (FloatOperands), tile after tile from the first key on.
struct PackedHead {
  std::array<std::byte*, 2> k{};  // of each map
  std::array<std::byte*, 2> v{};  // of each slice
};

// What one thread works with.
struct FusedScratch {
  std::byte* q;      // [rows] of one map, scaled
  int32_t* begin;    // [rows] of the keys of a tile that are visible
  int32_t* end;      // [rows]
  float* values;     // [maps] of logits, then exponentials or probabilities; the difference replaces map 1
  float* max;        // [maps][tiles][rows], and a tile for a sink; weights replace a map's
  float* exp_sums;   // the same
  float* lambda;     // [rows]
  std::byte* coded;  // [rows][64]: a tile's difference in bf16; none for f32
  float* out;        // [rows][width of out]
  float* wide;       // [64][the larger of q_width and v_width] where anything has 16 bits
};

// How a block's values lie: tile after tile; or, to be looked at, a row's keys side by side.
enum class FusedValues { kTiles, kRows };

// Sizes and products of calls with one head table.
struct FusedKernel {
  // For this problem's heads and widths, at most `queries` queries, `keys` keys. Throws as CheckProblem; no integers.
  FusedKernel(const AttentionProblem& problem, ProductTypes types, int64_t queries, int64_t keys, FusedValues order);

  FusedScratch TakeScratch(Arena& arena) const;

  // Q K, and the difference times V for a row's first tile and those after it.
  struct Products {
    TileProduct logits, first, more;
  };

  FloatOperands operands;
  int q_width, v_width, out_width, wide_width;
  int maps = 1;
  int64_t tiles;
  int rows;                          // of a block
  int64_t map_values, stride, step;  // values of a map, between its rows, and between its tiles
  std::array<std::optional<Products>, kLargestRows / kRowStep> products;  // of blocks of 16, 32, 48 and 64 rows
};

// A block of rows, of which problem.out is written.
struct FusedRows {
  const FusedKernel& kernel;
  const AttentionProblem& problem;
  const RowBlock& block;
  const PackedHead& packed;
  const FusedScratch& scratch;
  const Looks& looks;
  double* column_sums = nullptr;  // [tiles][64] with an integral: of the first map's rows before these, or of all
};
void RunFused(const FusedRows& rows);
void ShowFusedLogits(const FusedRows& rows);  // and no more
void SumFused(const FusedRows& rows);         // adds the first map's rows to column_sums, and no more

}  // namespace tare
