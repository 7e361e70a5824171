// SPDX-License-Identifier: Apache-2.0
// Linear layers in integers: y = x W^T (+ bias), with x quantized as it arrives (W8A8, W6A8, W4A8 and narrower
// activations), one scale per token or a static one for all, and W packed (packed_matrix.h).
//
//   S[r, n, g] = sum over the inputs of group g of xcode[r, i] wcode[n, i]      exact, 32 bits
//   y[r, n]    = (sum over g of S[r, n, g] wscale[n, g]) xscale[r] + bias[n]    f32, groups in order
//
// Weights with an offset (+zero and +min, packed_matrix.h) add X[r, g] woffset[n, g] to each group's product in that
// order, with X[r, g] the exact sum of xcode over the group. The products' own roundings are those of S wscale: the
// result differs from exact arithmetic on the same codes by at most (2 groups + 4) 2^-24 of the sum of all terms'
// magnitudes, |S wscale| + |X woffset|, times xscale, and of the bias.
//
// Inputs in a format with blocks (mxfp4, nvfp4) are integers times steps, xcode[r, i] xstep[r, block of i]. Then g
// counts parts, the inputs that share a step and a scale of the weights, and S (wscale xstep), X xstep are what is
// added; 1 is xscale. The bound is that of as many groups.
//
// The product is u8 x s8 (TileProduct): xcode + 128, from which 128 sum(wcode) is subtracted again. 32 bits hold 255 x
// 128 x 65793 inputs. A single row goes the way of one_token.h, to the same bits. Bit-equal on any number of threads;
// S is bit-equal on any instruction set, too.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "kernels/linear/one_token.h"
#include "kernels/linear/packed_matrix.h"
#include "kernels/product/tile_product.h"
#include "quant/base/aligned.h"
#include "quant/format/format.h"
#include "quant/format/quantized_matrix.h"

namespace tare {

inline constexpr int64_t kLargestGroup = 65793;

// How activations are quantized. NVFP4's f32 per tensor is of all rows of a call.
struct TokenFormat {
  Format format = Format::kInt8;  // int8, int6 or int4; or with blocks of integers times a step (AsStepCodes)
  std::optional<float> clip;      // the magnitude that becomes the largest code; empty: each token's largest
  friend auto operator<=>(const TokenFormat&, const TokenFormat&) = default;
};

// Memory grows with the largest call and is kept: repeated calls allocate only what oneDNN does. One thread at a time.
class QuantizedLinear {
 public:
  // All projections share `in`. Throws Error for what CheckProjections refuses, other formats and clips of activations,
  // naming the row, if a value of x is not finite, and if sums could overflow.
  void Project(const float* x, int64_t rows, const TokenFormat& activation,
               std::span<const QuantizedProjection> projections);

 private:
  // One product of a tile of rows with a panel: inputs from `begin` on.
  struct Step {
    int64_t begin = 0;
    bool ends_part = false;
    TileProduct product;
  };
  // Up to 512 rows times one panel of 64 outputs.
  struct Piece {
    const QuantizedProjection* projection;
    size_t whole, tail, end;  // of steps_: whole tiles of rows start at `whole`, the rest of the rows at `tail`
    int64_t row, panel;
  };
  struct Scratch {
    AlignedBuffer<int8_t> panel;       // [padded in / 4][64][4]
    AlignedBuffer<int32_t> code_sums;  // [parts][64] of the panel
    AlignedBuffer<int32_t> sums;       // [64][64]
    AlignedBuffer<float> total;        // [64][64]
  };

  int64_t PartOf(const PackedMatrix& weight) const;
  void ToCodes(const float* x, int64_t rows, const TokenFormat& activation, const PackedMatrix& weight);
  void ProjectRow(std::span<const QuantizedProjection> projections);
  void SumCodes(const PackedMatrix& weight, int64_t rows);
  void AddSteps(const PackedMatrix& weight, int64_t rows);
  void AddPieces(const QuantizedProjection& projection, int64_t rows);
  void RunPiece(const Piece& piece, int64_t rows, Scratch& scratch) const;
  void RunTile(const Piece& piece, int64_t row, int64_t rows, const int8_t* weights, Scratch& scratch) const;

  AlignedBuffer<uint8_t> codes_;                         // [rows][stride]
  AlignedBuffer<float> scales_;                          // [rows]
  int64_t block_ = 0;                                    // inputs of a step; 0: there are none
  AlignedBuffer<float> x_steps_;                         // [rows][blocks]
  std::map<int64_t, AlignedBuffer<float>> sums_;         // by inputs of a part, for weights with offsets: [rows][parts]
  std::map<std::pair<int64_t, int64_t>, OneToken> row_;  // a single row, by inputs and those of a part
  std::vector<OneToken::TokenProjection> of_row_;
  std::vector<Step> steps_;
  std::vector<Piece> pieces_;
  std::vector<Scratch> scratches_;  // one per thread
};

struct LinearReference {
  // [rows][out][parts]: products of codes, those of weights less their zero point; a grid's values count in steps
  std::vector<int64_t> sums;
  std::vector<double> y;  // [rows][out]
};

// The reference: one value at a time, integers in 64 bits, scales in double; shares only quant/format's rounding.
//
// x [rows, in], one scale per row, or per block; bias [out] or null. tensor_absmax: as in ScaleFor.
LinearReference ReferenceLinear(const float* x, int64_t rows, const Format& activation, const QuantizedMatrix& weight,
                                const float* bias, float tensor_absmax = 1);

}  // namespace tare
