// SPDX-License-Identifier: Apache-2.0
// Rounds values to the blocks of blocks.h, byte for byte as libggml's ggml_quantize_chunk without an importance matrix
// and gguf-py's gguf.quants do. d and m are computed in f32, used so, and then stored in f16. With a the value of the
// largest magnitude (of several, the first):
//
//   Q8_0    d = |a| / 127            q = round(x / d), halves away from zero
//   Q4_0    d = a / -8               q = floor(x / d + 8.5), at most 15: a itself is code 0
//   Q4_1    d = (max - min) / 15     q = floor((x - min) / d + 0.5), m = min
//   Q5_0    d = a / -16              q = floor(x / d + 16.5), at most 31
//   Q5_1    d = (max - min) / 31     q = floor((x - min) / d + 0.5), m = min
//   MXFP4   2^(floor(log2 |a|) - 2)  q nearest, of two equally near ones the smaller magnitude
//
// x / d is x times 1 / d, both in f32. F16 and BF16 are the nearest, ties to even. Q4_K, Q5_K and Q6_K, whose search is
// ours, are not theirs byte for byte (below).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "quant/format/quantized_matrix.h"
#include "quant/interchange/gguf/container.h"

namespace tare::gguf {

// Names of these types and of F32.
std::vector<std::string> TypesWritten();

// Finite x of a whole number of the type's blocks. False, with data unspecified, where a scale or value is beyond F16.
bool QuantizeBlocks(TensorType type, const float* x, int64_t blocks, std::byte* data);

// ---- Integer codes of Tare's own

// They become blocks of 32, code by code: nothing is rounded but scales and minima, which
// blocks have in f16.
//
//   Q4_0   int4, int4+full                       d = scale, q = code + 8
//   Q8_0   int8, int6, int4, and +full of each   d = scale, q = code
//   Q4_1   int4+min, int4+zero                   d = scale, m = minimum or -zero scale, q = code
//
// Groups are multiples of 32: their blocks repeat the scale. Whether blocks of the type hold the matrix's codes.
bool HoldsCodes(TensorType type, const QuantizedMatrix& matrix);

struct RoundedScales {
  int64_t groups = 0, rounded = 0;  // whose scale or minimum is no f16
  bool fit = true;                  // false, with the blocks unspecified: one is beyond F16, or a scale becomes 0
};

// A row's blocks, of a type that holds its codes. Throws Error as DequantizeRow does, for what no quantizer writes.
RoundedScales PutCodes(TensorType type, const QuantizedMatrix& matrix, int64_t row, std::byte* data);

// ---- Super-blocks

// Rounds 256 values to a super-block of blocks.h whose groups' scales, and minima, are codes themselves:
//
//   Q4_K, Q5_K   x ~ (d s) q - dmin m    8 groups of 32; s and m of 6 bits, q of 4 or 5
//   Q6_K         x ~ (d s) q             16 groups of 16; s int8, q from -32 to 31
//
// The search is ours, for the least squared error, every value with the same weight (libggml's weights large values
// more): each group tries several widths, which clip its ends or leave room, and takes the least squares' scale and
// minimum of the codes that a width gives. Then d and dmin make the largest scale and minimum the largest code, and
// are solved for once more, by least squares over the 256 values, with all codes given. Against libggml's bytes of the
// same values: tests/quant/interchange/gguf/super_blocks_test.cc.
//
// Finite x [256]; b: a block of the type. False, with b unspecified, where a scale is beyond F16.
bool PutQ4_K(const float* x, uint8_t* b);
bool PutQ5_K(const float* x, uint8_t* b);
bool PutQ6_K(const float* x, uint8_t* b);

}  // namespace tare::gguf
