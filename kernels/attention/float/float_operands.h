// SPDX-License-Identifier: Apache-2.0
// Attention's operands in the layouts of tile_product.h, in f32 or bf16 (to nearest, ties to even):
//
//   a row of Q, times the scale    [depth]             depth: the width, for bf16 rounded up to 2 with a zero
//   a tile of K                    [depth / g][64][g]  64 keys; g = 1 for f32, 2 for bf16
//   a tile of V                    [64 / g][width][g]
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/attention/row_block.h"
#include "kernels/product/tile_product.h"

namespace tare {

// The rows of a tile's keys or values; null, which become zeros, where there is none.
using TileRows = std::array<const float*, kTile>;

class FloatOperands {
 public:
  // Throws Error for types other than kF32 and kBf16.
  explicit FloatOperands(ProductTypes types);

  ProductTypes types() const { return types_; }
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

}  // namespace tare
