// SPDX-License-Identifier: Apache-2.0
// GGUF's quantized blocks (ggml-common.h) and their values, bit for bit gguf-py's and libggml's. d, m and dmin are f16,
// taken to f32 first; all is little-endian. In blocks of 32 a byte has value i in its low half, i + 16 in the high.
//
//   Q8_0    d, 32 int8                           d q
//   Q4_0    d, 16 bytes                          d (q - 8)
//   Q4_1    d, m, 16 bytes                       d q + m
//   Q5_0    d, 32 fifth bits, 16 bytes           d (q - 16)
//   Q5_1    d, m, 32 fifth bits, 16 bytes        d q + m
//   IQ4_NL  d, 16 bytes                          d t[q], t a table of 16 integers
//   MXFP4   e, 16 bytes                          2^(e - 128) t[q], t the doubled values of E2M1
//   Q2_K    16 scales, 64 bytes, d, dmin         (d s) q - dmin m, a scale s and a minimum m of 4 bits per 16 values
//   Q3_K    32 + 64 bytes, 12 bytes, d           (d s) q, q from -4 to 3, s of 6 bits less 32 per 16 values
//   Q4_K    d, dmin, 12 bytes, 128 bytes         (d s) q - dmin m, s and m of 6 bits per 32 values
//   Q5_K    d, dmin, 12, 32 + 128 bytes          the same with 5 bits
//   Q6_K    128 + 64 bytes, 16 int8, d           (d s) (q - 32), s of 8 bits per 16 values
//
// Each is an integer times a scale, and a minimum perhaps, for 16 or 32 neighbours: d s and dmin m are exact in f32,
// and so are all codes in int8, int6 or int4 (IntegersOfType).
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "quant/base/float16.h"
#include "quant/file/dtype.h"
#include "quant/format/quantized_matrix.h"
#include "quant/interchange/gguf/container.h"

namespace tare::gguf {

// A scale or minimum of a GGUF block: two bytes of an F16, the lower one first.
inline float HalfAt(const uint8_t* b) { return FloatFromF16(Load<uint16_t>(b)); }

// 0 where the scale is 0, or too small to have an inverse.
inline float InverseOrZero(float scale) {
  const float inverse = 1.0f / scale;
  return std::isfinite(inverse) ? inverse : 0.0f;
}

// Writes the nearest F16. False where it is beyond the largest one.
inline bool PutHalf(float value, uint8_t* b) {
  const uint16_t bits = F16FromFloat(value);
  std::memcpy(b, &bits, sizeof bits);
  return std::isfinite(FloatFromF16(bits));
}

// MXFP4's numbers: the doubled values of E2M1's codes, and 2^(e - 128), half of E8M0's value, subnormal for e < 2.
inline constexpr std::array<int8_t, 16> kTwiceE2M1{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
constexpr float HalfOfE8M0(uint8_t e) {
  return std::bit_cast<float>(e < 2 ? uint32_t{0x00200000} << e : static_cast<uint32_t>(e - 1) << 23);
}

// A block of a quantized type: value i of group g is codes[i] * scales[g] (+ minima[g], where the format is +min).
struct BlockIntegers {
  std::array<int8_t, 256> codes;
  std::array<float, 16> scales, minima;
};
// The form of a quantized type's codes.
IntegerForm IntegersOfType(TensorType type);
void ReadIntegers(TensorType type, const std::byte* block, BlockIntegers& to);

// y holds `blocks` blocks of values; of F32, F16 and BF16 a block is one value.
void DequantizeBlocks(TensorType type, const std::byte* data, int64_t blocks, float* y);

// ---- Rounds values to these blocks, byte for byte as libggml's ggml_quantize_chunk without an importance matrix
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
// x / d is x times 1 / d in f32. F16 and BF16: nearest, ties to even. Q4_K to Q6_K: our search, other bytes (below).

// Names of these types and of F32.
std::vector<std::string> TypesWritten();

// Finite x of a whole number of the type's blocks. False, with data unspecified, where a scale or value is beyond F16.
bool QuantizeBlocks(TensorType type, const float* x, int64_t blocks, std::byte* data);

// ---- Integer codes of Tare's own

// They become blocks of 32, code by code: nothing is rounded but scales and minima, which blocks have in f16.
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

// Rounds 256 values to a super-block whose groups' scales, and minima, are codes themselves:
//
//   Q4_K, Q5_K   x ~ (d s) q - dmin m    8 groups of 32; s and m of 6 bits, q of 4 or 5
//   Q6_K         x ~ (d s) q             16 groups of 16; s int8, q from -32 to 31
//
// The search is ours, for the least squared error with equal weights (libggml's weights large values more): each group
// tries several widths, which clip its ends or leave room, and takes the least squares' scale and minimum of the codes.
// Then d and dmin make the largest scale and minimum the largest code, and are solved for again by least squares over
// all 256 values. Against libggml's bytes: tests/quant/interchange/gguf/super_blocks_test.cc.
//
// Finite x [256]; b: a block of the type. False, with b unspecified, where a scale is beyond F16.
bool PutQ4_K(const float* x, uint8_t* b);
bool PutQ5_K(const float* x, uint8_t* b);
bool PutQ6_K(const float* x, uint8_t* b);

}  // namespace tare::gguf
