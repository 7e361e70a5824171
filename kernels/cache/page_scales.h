// SPDX-License-Identifier: Apache-2.0
// What codes of a page share: a head's scales, of tokens or of channels, in f32 or f16 [count], and after them, where
// the format has zero points or minima, as many of these. A value is
//
//   code x scale + minimum                 +min
//   (code - zero) x scale                  +zero, whose minimum is -zero x scale, rounded once
//
// and kernels, which see scales and minima alone, know no zero points. In f32 a zero point is held as its minimum. f16
// holds it as it is, a whole number.
//
// Codes are made with what is held. In f16, as KIVI has them (arXiv 2402.02750), that is the largest minimum that is no
// more than the least value, and for it the smallest scale that reaches the largest value: nothing is cut off, and a
// value is off by at most half of
//
//   s <= (1 + 2^-10) (high - low + 2^-10 |low|) / q       +min; of the others (1 + 2^-10) times the scale in f32
//
// with low and high the ends of the values and q the largest code; where 2^-24, the smallest f16, is more than 2^-10 of
// a number, it takes its place. bf16 would hold values of any size, but costs the largest value of a group its place at
// a code: in four bits the embedded differential model's values lose 6 % more with it (divergence), with f16 nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/format/format.h"
#include "quant/format/round.h"

namespace tare {

enum class HeldScales { kF32, kF16 };

inline constexpr float kLargestF16 = 65504;

class PageScales {
 public:
  PageScales(Format format, int64_t count, HeldScales held = HeldScales::kF32)
      : format_(format), held_(held), count_(HasCodes(format) ? count : 0) {}

  int64_t Bytes() const { return (Minima() * (HasMinima() ? 2 : 1) + 63) / 64 * 64; }
  int64_t Minima() const { return count_ * (held_ == HeldScales::kF16 ? 2 : 4); }  // where they begin

  // n values, at most kLargestWidth, as codes under quant/format/round.h, whose scale is number `index`. Values are
  // finite, and so is their range; beside f16 it is at most half of kLargestF16.
  void Round(const float* values, int n, std::byte* scales, int64_t index, float* codes) const;
  // Codes of one scale to values, as ValueOf has them; or codes of n scales, the first of which is number `first`, one
  // of each.
  void Dequantize(const std::byte* scales, int64_t index, int n, float* values) const;
  void DequantizeEach(const std::byte* scales, int64_t first, int n, float* values) const;
  void Copy(std::byte* scales, int64_t index, const std::byte* from, int64_t from_index) const;

  // As kernels see them.
  struct Numbers {
    const float *scales = nullptr, *minima = nullptr;  // [n]; minima null: the format has none
  };
  // n from number `first` on: where they lie, or those of f16 in memory [2 n].
  Numbers Load(const std::byte* scales, int64_t first, int64_t n, float* memory) const;

 private:
  bool HasMinima() const { return format_.range == CodeRange::kZero || format_.range == CodeRange::kMin; }
  GroupScale GroupOf(Ends ends) const;
  GroupScale At(const std::byte* scales, int64_t index) const;
  float Get(const std::byte* from, int64_t index) const;
  void Put(std::byte* to, int64_t index, float value) const;

  Format format_;
  HeldScales held_;
  int64_t count_;
};

}  // namespace tare
