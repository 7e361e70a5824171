// SPDX-License-Identifier: Apache-2.0
// What codes of a page share: a head's scales, of tokens or of channels, in f32 or bf16 [count], and after them, where
// the format has zero points or minima, as many of these. A value is
//
//   code x scale + minimum                 +min
//   (code - zero) x scale                  +zero, whose minimum is -zero x scale, rounded once
//
// and kernels, which see scales and minima alone, know no zero points. In f32 a zero point is held as its minimum. bf16
// holds it as it is: its 8 bits have every whole number to 256.
//
// Codes are made with what is held. In bf16 that is the largest minimum that is no more than the least value, and for
// it the smallest scale that reaches the largest value: nothing is cut off, and a value is off by at most half of
//
//   s <= (1 + 2^-7) (high - low + 2^-7 |low|) / q       +min; of the others (1 + 2^-7) times the scale in f32
//
// with low and high the ends of the values and q the largest code. bf16 and not f16, as KIVI has (arXiv 2402.02750):
// its range is that of f32, so that no value is too large or too small for it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/format/format.h"
#include "quant/format/round.h"

namespace tare {

class PageScales {
 public:
  // held: f32 or bf16.
  PageScales(Format format, int64_t count, Format held = Format::kF32)
      : format_(format), held_(held), range_(Info(format).range), count_(HasCodes(format) ? count : 0) {}

  int64_t Bytes() const { return (Minima() * (HasMinima() ? 2 : 1) + 63) / 64 * 64; }
  int64_t Minima() const { return count_ * Info(held_).bits / 8; }  // where they begin

  // n values, at most kLargestWidth, as codes under quant/format/round.h, whose scale is number `index`. Values are
  // finite, and so is their range; beside bf16 it is at most half of what f32 reaches.
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
  // n from number `first` on: where they lie, or those of bf16 in memory [2 n].
  Numbers Load(const std::byte* scales, int64_t first, int64_t n, float* memory) const;

 private:
  bool HasMinima() const { return range_ == CodeRange::kZero || range_ == CodeRange::kMin; }
  GroupScale GroupOf(Ends ends) const;
  GroupScale At(const std::byte* scales, int64_t index) const;
  float Get(const std::byte* from, int64_t index) const;
  void Put(std::byte* to, int64_t index, float value) const;

  Format format_, held_;
  CodeRange range_;
  int64_t count_;
};

}  // namespace tare
