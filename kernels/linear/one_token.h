// SPDX-License-Identifier: Apache-2.0
// One token, or a few, through a quantized weight matrix (weights only): the main cost of generating token by token.
// Reading W takes most of the time, so its codes stay packed until they are in registers. x is rounded to 15-bit
// integers, precise enough for f32, a scale per 64 inputs (32 or 16 if the weights' groups are odd multiples of that):
//
//   x[i] = (128 hi[i] + lo[i]) xscale[block],  hi -127 .. 127, lo -64 .. 63;   off by at most half a step
//   y[n] = sum over blocks of (128 sum(wcode hi) + sum(wcode lo)) wscale[n] xscale + bias[n]
//
// With an offset (+zero and +min, packed_matrix.h) a block adds (128 sum(hi) + sum(lo)) xscale woffset[n], too. That
// sum is a whole number below 2^20, exact in f32.
//
// The sums are exact and the blocks are added in order, so results are bit-equal on any number of threads.
#pragma once

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "kernels/linear/packed_matrix.h"

namespace tare {

// x as integers, for matrices of these inputs and block. The constructor allocates; threads may share a loaded one.
class OneToken {
 public:
  static constexpr int kLargestCode = 127 * 128;

  // Throws Error for other blocks than 64, 32 and 16.
  OneToken(int64_t in, int64_t block);

  // x [in]. Throws Error, naming the index, if a value is not finite.
  void Load(const float* x);
  // x [in, padded to 16 with 128] as codes + 128, times scale, and times the step of its block of `of_step` inputs,
  // unless steps is null. `part` inputs share the scales of x and of the weights: y is QuantizedLinear's.
  void LoadCodes(const uint8_t* x, float scale, const float* steps, int64_t of_step, int64_t part);

  // Inputs that share a scale with these weights: 64, 32 or 16, a divisor of their groups (one group per row fits any).
  static int64_t BlockOf(const PackedMatrix& weight);

  // y [out] = W x + bias. Throws Error for a weight of other inputs or groups than this token's.
  void Project(const PackedMatrix& weight, const float* bias, float* y) const;

  // Tokens of one size through one matrix: y [tokens, out], in one region, as a region waits for its slowest thread.
  struct TokenProjection {
    std::span<const OneToken> tokens;
    QuantizedProjection to;
  };
  static void ProjectAll(std::span<const TokenProjection> all);

  struct Block {
    float scale = 0;
    int32_t high_sum = 0, low_sum = 0;  // of the codes
  };

 private:
  static void CheckSizes(int64_t in, int64_t block);
  void CheckWeight(const PackedMatrix& weight) const;
  // Outputs of one panel of weights.
  void ProjectPanelOf(const PackedMatrix& weight, int64_t panel, const float* bias, float* y) const;

  int64_t in_, block_, padded_;  // padded: to 16 inputs
  float scale_ = 1;              // of all outputs
  std::vector<int8_t> high_, low_;
  std::vector<Block> blocks_;
};

// Up to this number of tokens, one after the other, cost less than dequantizing W for one product of all (a matrix of
// 4096 x 4096 on an Intel Xeon, see docs/develop/notebook.md).
inline constexpr int64_t kFewTokens = 16;

// Several matrices with the same input. Memory is kept from call to call. One thread at a time may call an object.
class OneTokenProjector {
 public:
  // x [tokens, in] is the input of all; throws Error as OneToken does, and for what CheckProjections refuses. Each
  // token's outputs are bit-equal to its outputs without the others.
  void Project(const float* x, int64_t tokens, std::span<const QuantizedProjection> projections);

 private:
  std::map<std::pair<int64_t, int64_t>, std::vector<OneToken>> tokens_;  // by inputs and block
};

}  // namespace tare
