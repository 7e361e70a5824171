// SPDX-License-Identifier: Apache-2.0
// A panel of the cache: 64 lanes of some inputs, as the weights of kernels/linear/packed_matrix.h lie. Inputs per
// record of 64 lanes, and where input r of lane l is, with u = code + RaisedBy(format), which is not negative:
//
//   f32     256 bytes    1    float l
//   bf16    256 bytes    2    bf16 2 l + r
//   int8    256 bytes    4    byte 4 l + r: u - 128, in two's complement
//   int4    256 bytes    8    byte 4 l + r % 4: u in its low half for r < 4, in its high half else
//   int6    768 bytes   16    low four bits of u as two records of int4; byte 512 + 4 l + r % 4 has the high two bits
//                             of inputs r % 4, + 4, + 8, + 12 in bits 0, 2, 4, 6
//   int2    256 bytes   16    byte 4 l + r % 4 has u of inputs r % 4, + 4, + 8, + 12 in bits 0, 2, 4, 6
//   int3    384 bytes   16    low two bits of u as a record of int2; the 16 bits at byte 256 + 2 l, lowest byte first,
//                             have the high bit of input r in bit 4 (r % 4) + r / 4
//
// Integers of another range (quant/format/format.h) lie as those of their width do.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/format/format.h"

namespace tare {

// Those of the table above.
constexpr bool IsCached(Format format) { return !HasCodes(format) || Info(format.base).min_code < 0; }

// What u is less, in products: about the middle of all codes, so that they err little.
constexpr int MiddleOf(Format format) { return 1 << (Info(format).bits - 1); }

// What codes are raised by where they lie. Those with a zero point or a minimum are not negative as they are.
constexpr int RaisedBy(Format format) { return HasOffset(format) ? 0 : MiddleOf(format); }

inline constexpr int kPanelLanes = 64;

// Bytes of a panel; inputs: a multiple of 16.
int64_t PanelBytes(Format format, int64_t inputs);

// Where some values of a panel are: consecutive inputs of a lane, or consecutive lanes of an input.
struct PanelRun {
  int input, lane, input_step, lane_step;
};

// Codes, or the numbers, as they are; codes are whole.
void ReadPanel(Format format, const std::byte* panel, const PanelRun& run, int n, float* values);
void WritePanel(Format format, std::byte* panel, const PanelRun& run, const float* values, int n);

}  // namespace tare
