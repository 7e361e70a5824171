// SPDX-License-Identifier: Apache-2.0
// What codes of a page share: a head's scales, of tokens or of channels, in f32 [count], and after them, where the
// format has zero points or minima, as many minima [count]. A minimum is what code 0 stands for, so a value is
//
//   code x scale + minimum                 +min
//   (code - zero) x scale                  +zero, whose minimum is -zero x scale, rounded once
//
// and kernels, which see scales and minima alone, know no zero points.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/format/format.h"
#include "quant/format/round.h"

namespace tare {

class PageScales {
 public:
  PageScales(Format format, int64_t count)
      : format_(format), range_(Info(format).range), count_(HasCodes(format) ? count : 0) {}

  int64_t Bytes() const { return Minima() * (HasMinima() ? 2 : 1); }
  int64_t Minima() const { return count_ * static_cast<int64_t>(sizeof(float)); }  // where they begin

  // n values, at most kLargestWidth, as codes under quant/format/round.h, whose scale is number `index`. Values are
  // finite, and so is their range.
  void Round(const float* values, int n, std::byte* scales, int64_t index, float* codes) const;
  // Codes of one scale to values, as ValueOf has them; or codes of the first n scales, one of each.
  void Dequantize(const std::byte* scales, int64_t index, int n, float* values) const;
  void DequantizeEach(const std::byte* scales, int n, float* values) const;
  void Copy(std::byte* scales, int64_t index, const std::byte* from, int64_t from_index) const;

 private:
  bool HasMinima() const { return range_ == CodeRange::kZero || range_ == CodeRange::kMin; }
  GroupScale At(const std::byte* scales, int64_t index) const;

  Format format_;
  CodeRange range_;
  int64_t count_;
};

}  // namespace tare
