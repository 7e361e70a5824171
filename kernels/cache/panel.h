// SPDX-License-Identifier: Apache-2.0
// What a page of the cache is made of: panels, and the scales of their codes.
//
// A panel: 64 lanes of some inputs, as the weights of kernels/linear/packed_matrix.h lie. Inputs per record of 64
// lanes, and where input r of lane l is, with u = code + RaisedBy(format), which is not negative:
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
//   fp8      64 bytes    1    byte l: u
//
// Integers of another range (quant/format/format.h) lie as those of their width do. Of FP8, of lists of values and of
// the other grids of four bits u is the stored code of quant/format/pack.h, and all but FP8's lie as those of their
// width do. Where codes are spoken of below and in kernels/decode, these have the values of their grid.
//
// What codes of a page share (PageScales): a head's scales, of tokens or of channels, in f32, in f16 or, of formats
// with blocks, in the byte of quant/format/pack.h [count], and after them, where the format has zero points or minima,
// as many of these. The f32 per tensor of NVFP4 is 1: no cache knows what comes. A value is
//
//   code x scale + minimum                 +min, and +mean with the mean in its place
//   (code - zero) x scale                  +zero, whose minimum is -zero x scale, rounded once
//
// and kernels see only scales and minima. f32 holds a zero point as its minimum, f16 as it is, a whole number.
//
// Codes are made with what is held: in f16, as in KIVI (arXiv 2402.02750), the largest minimum not above the least
// value and the smallest scale that then reaches the largest: nothing is cut off, and a value is off by at most half of
//
//   s <= (1 + 2^-10) (high - low + 2^-10 |low|) / q       +min; of the others (1 + 2^-10) times the scale in f32
//
// with low and high the ends of the values and q the largest code; where 2^-24, the smallest f16, is more than 2^-10 of
// a number, it takes its place. bf16 would hold values of any size, but costs the largest value of a group its place at
// a code: in four bits the embedded differential model's values lose 6 % more with it (divergence), with f16 nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "quant/format/format.h"
#include "quant/format/round.h"

namespace tare {

// Those of the table above: lists have at most 16 values, as registers hold.
constexpr bool IsCached(const Format& format) {
  if (!HasCodes(format) || Info(format.base).min_code < 0) return true;
  const FormatInfo& info = Info(format);
  const bool own_scale = !IsTwoLevel(format.scale) || format.scale == ScaleType::kTwoLevel;
  if (info.block > 0) return own_scale && (info.bits == 4 || (info.bits == 8 && !info.grid.twos_complement));
  if (format.scale != ScaleType::kF32) return false;
  const bool listed = !info.grid.levels.empty() && info.together == 1 && info.bits >= 2 && info.bits <= 4;
  return listed || format.base == Format::kFp8E4M3 || format.base == Format::kFp8E5M2;
}

// What u is less, in products of integers: about the middle of all codes, so that they err little.
constexpr int MiddleOf(const Format& format) { return IsInteger(format) ? 1 << (Info(format).bits - 1) : 0; }

// What codes are raised by where they lie. Those with a zero point or a minimum are not negative as they are.
constexpr int RaisedBy(const Format& format) { return HasOffset(format) ? 0 : MiddleOf(format); }

inline constexpr int kPanelLanes = 64;

// Bytes of a panel; inputs: a multiple of 16.
int64_t PanelBytes(const Format& format, int64_t inputs);

// Where some values of a panel are: consecutive inputs of a lane, or consecutive lanes of an input.
struct PanelRun {
  int input, lane, input_step, lane_step;
};

// Codes, or the numbers, as they are.
void ReadPanel(Format format, const std::byte* panel, const PanelRun& run, int n, float* values);
void WritePanel(Format format, std::byte* panel, const PanelRun& run, const float* values, int n);

enum class HeldScales { kF32, kF16, kByte };

inline constexpr float kLargestF16 = 65504;
// The largest magnitude that two levels of scales reach where that of the tensor is 1.
constexpr float LargestOfUnit(const Format& format) { return kE4M3.largest * Info(format).grid.largest; }

class PageScales {
 public:
  // clip: the magnitude that becomes the largest code, where no scales are held; count is 0 then.
  PageScales(Format format, int64_t count, HeldScales held = HeldScales::kF32, std::optional<float> clip = {})
      : format_(format), held_(held), count_(HasCodes(format) ? count : 0), clip_(clip) {}

  int64_t Bytes() const { return (Minima() * (HasMinima() ? 2 : 1) + 63) / 64 * 64; }
  // Where they begin.
  int64_t Minima() const { return count_ * (held_ == HeldScales::kF32 ? 4 : held_ == HeldScales::kF16 ? 2 : 1); }

  // n <= kLargestWidth values of finite range to codes by quant/format/round.h, scale `index`; f16: <= kLargestF16 / 2.
  void Round(const float* values, int n, std::byte* scales, int64_t index, float* codes) const;
  // Codes of one scale to values, as ValueOf has them; or codes of n scales, one each, from number `first` on.
  void Dequantize(const std::byte* scales, int64_t index, int n, float* values) const;
  void DequantizeEach(const std::byte* scales, int64_t first, int n, float* values) const;
  void Copy(std::byte* scales, int64_t index, const std::byte* from, int64_t from_index) const;

  // As kernels see them.
  struct Numbers {
    const float *scales = nullptr, *minima = nullptr;  // [n]; minima null: the format has none
  };
  // n from number `first` on: where they lie, or those of f16, of bytes or of a clip in memory [2 n].
  Numbers Load(const std::byte* scales, int64_t first, int64_t n, float* memory) const;

 private:
  bool HasMinima() const { return HasOffset(format_); }
  GroupScale GroupOf(Ends ends) const;
  GroupScale At(const std::byte* scales, int64_t index) const;
  float Get(const std::byte* from, int64_t index) const;
  void Put(std::byte* to, int64_t index, float value) const;

  Format format_;
  HeldScales held_;
  int64_t count_;
  std::optional<float> clip_;
};

}  // namespace tare
