// SPDX-License-Identifier: Apache-2.0
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
#pragma once

#include <cstdint>

namespace tare::gguf {

// Finite x [256]; b: a block of the type. False, with b unspecified, where a scale is beyond F16.
bool PutQ4_K(const float* x, uint8_t* b);
bool PutQ5_K(const float* x, uint8_t* b);
bool PutQ6_K(const float* x, uint8_t* b);

}  // namespace tare::gguf
