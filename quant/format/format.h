// SPDX-License-Identifier: Apache-2.0
// Number formats: a grid, and the scale that it is multiplied by. f32 means: left as it is.
//
// Integers have codes: signed ones are symmetric, -(2^(b-1)-1) .. 2^(b-1)-1; unsigned ones, 0 .. 2^b-1, are for what
// cannot be negative (probabilities), and with a zero point (zero_point.h) for what leans to one side. Their scale is
// an f32; files and integer kernels take them. All others are simulated and measured: MX formats and NVFP4, which say
// themselves how many values share a scale, and FP8 and NF4 with an f32. A name with a colon has another rule for E8M0
// (block_scale.h).
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "quant/format/block_scale.h"
#include "quant/format/grid.h"

namespace tare {

enum class Format {
  kF32,
  kInt8,
  kInt6,
  kInt4,
  kU8,
  kU6,
  kU4,
  kMxFp4,
  kMxFp6E2M3,
  kMxFp6E3M2,
  kMxFp8E4M3,
  kMxFp8E5M2,
  kMxInt8,
  kNvFp4,
  kFp8E4M3,
  kFp8E5M2,
  kNf4,
  kMxFp4Ceil,
  kMxFp4Rceil,
  kMxFp4Even,
  kMxFp6E2M3Ceil,
  kMxFp6E2M3Rceil,
  kMxFp6E2M3Even,
  kMxFp6E3M2Ceil,
  kMxFp6E3M2Rceil,
  kMxFp6E3M2Even,
  kMxFp8E4M3Ceil,
  kMxFp8E4M3Rceil,
  kMxFp8E4M3Even,
  kMxFp8E5M2Ceil,
  kMxFp8E5M2Rceil,
  kMxFp8E5M2Even,
  kMxInt8Ceil,
  kMxInt8Rceil,
  kMxInt8Even,
};

struct FormatInfo {
  Format format;
  std::string_view name;
  int bits;
  int min_code;  // of integers; 0 and 0 of all others
  int max_code;  // "qmax": what the largest magnitude of a group becomes
  Grid grid{};   // of what is not integer
  ScaleType scale = ScaleType::kF32;
  int block = 0;  // values that share a scale by the format's definition; 0: a plan says it

  // What the largest magnitude of a group becomes.
  constexpr float Largest() const { return max_code > 0 ? static_cast<float>(max_code) : grid.largest; }
};

inline constexpr std::array<FormatInfo, 35> kFormats{{
    {Format::kF32, "f32", 32, 0, 0},
    {Format::kInt8, "int8", 8, -127, 127},
    {Format::kInt6, "int6", 6, -31, 31},
    {Format::kInt4, "int4", 4, -7, 7},
    {Format::kU8, "u8", 8, 0, 255},
    {Format::kU6, "u6", 6, 0, 63},
    {Format::kU4, "u4", 4, 0, 15},
    {Format::kMxFp4, "mxfp4", 4, 0, 0, kE2M1, ScaleType::kE8M0Floor, 32},
    {Format::kMxFp6E2M3, "mxfp6e2m3", 6, 0, 0, kE2M3, ScaleType::kE8M0Floor, 32},
    {Format::kMxFp6E3M2, "mxfp6e3m2", 6, 0, 0, kE3M2, ScaleType::kE8M0Floor, 32},
    {Format::kMxFp8E4M3, "mxfp8e4m3", 8, 0, 0, kE4M3, ScaleType::kE8M0Floor, 32},
    {Format::kMxFp8E5M2, "mxfp8e5m2", 8, 0, 0, kE5M2, ScaleType::kE8M0Floor, 32},
    {Format::kMxInt8, "mxint8", 8, 0, 0, kSixtyFourths, ScaleType::kE8M0Floor, 32},
    {Format::kNvFp4, "nvfp4", 4, 0, 0, kE2M1, ScaleType::kTwoLevel, 16},
    {Format::kFp8E4M3, "fp8e4m3", 8, 0, 0, kE4M3},
    {Format::kFp8E5M2, "fp8e5m2", 8, 0, 0, kE5M2},
    {Format::kNf4, "nf4", 4, 0, 0, kNormalQuantiles},
    {Format::kMxFp4Ceil, "mxfp4:ceil", 4, 0, 0, kE2M1, ScaleType::kE8M0Ceil, 32},
    {Format::kMxFp4Rceil, "mxfp4:rceil", 4, 0, 0, kE2M1, ScaleType::kE8M0Rceil, 32},
    {Format::kMxFp4Even, "mxfp4:even", 4, 0, 0, kE2M1, ScaleType::kE8M0Even, 32},
    {Format::kMxFp6E2M3Ceil, "mxfp6e2m3:ceil", 6, 0, 0, kE2M3, ScaleType::kE8M0Ceil, 32},
    {Format::kMxFp6E2M3Rceil, "mxfp6e2m3:rceil", 6, 0, 0, kE2M3, ScaleType::kE8M0Rceil, 32},
    {Format::kMxFp6E2M3Even, "mxfp6e2m3:even", 6, 0, 0, kE2M3, ScaleType::kE8M0Even, 32},
    {Format::kMxFp6E3M2Ceil, "mxfp6e3m2:ceil", 6, 0, 0, kE3M2, ScaleType::kE8M0Ceil, 32},
    {Format::kMxFp6E3M2Rceil, "mxfp6e3m2:rceil", 6, 0, 0, kE3M2, ScaleType::kE8M0Rceil, 32},
    {Format::kMxFp6E3M2Even, "mxfp6e3m2:even", 6, 0, 0, kE3M2, ScaleType::kE8M0Even, 32},
    {Format::kMxFp8E4M3Ceil, "mxfp8e4m3:ceil", 8, 0, 0, kE4M3, ScaleType::kE8M0Ceil, 32},
    {Format::kMxFp8E4M3Rceil, "mxfp8e4m3:rceil", 8, 0, 0, kE4M3, ScaleType::kE8M0Rceil, 32},
    {Format::kMxFp8E4M3Even, "mxfp8e4m3:even", 8, 0, 0, kE4M3, ScaleType::kE8M0Even, 32},
    {Format::kMxFp8E5M2Ceil, "mxfp8e5m2:ceil", 8, 0, 0, kE5M2, ScaleType::kE8M0Ceil, 32},
    {Format::kMxFp8E5M2Rceil, "mxfp8e5m2:rceil", 8, 0, 0, kE5M2, ScaleType::kE8M0Rceil, 32},
    {Format::kMxFp8E5M2Even, "mxfp8e5m2:even", 8, 0, 0, kE5M2, ScaleType::kE8M0Even, 32},
    {Format::kMxInt8Ceil, "mxint8:ceil", 8, 0, 0, kSixtyFourths, ScaleType::kE8M0Ceil, 32},
    {Format::kMxInt8Rceil, "mxint8:rceil", 8, 0, 0, kSixtyFourths, ScaleType::kE8M0Rceil, 32},
    {Format::kMxInt8Even, "mxint8:even", 8, 0, 0, kSixtyFourths, ScaleType::kE8M0Even, 32},
}};

constexpr const FormatInfo& Info(Format format) { return kFormats[static_cast<size_t>(format)]; }

// Integer codes and an f32.
constexpr bool IsInteger(Format format) { return Info(format).max_code > 0; }

// The narrowest signed integers whose codes, times `step`, are all values of a format before its scale: of mxfp4 int6,
// 12 steps of 0.5; of mxfp6e2m3 int8, 60 steps of 1/8; of mxint8 int8. Nothing where none does (E3M2 goes to 448).
struct StepCodes {
  Format format;
  float step;
};
constexpr std::optional<StepCodes> AsStepCodes(Format format) {
  const Grid& grid = Info(format).grid;
  if (IsInteger(format)) return StepCodes{format, 1.0f};
  if (format == Format::kF32 || !grid.levels.empty()) return std::nullopt;
  for (const Format integers : {Format::kInt4, Format::kInt6, Format::kInt8}) {
    if (grid.largest <= grid.Step() * static_cast<float>(Info(integers).max_code))
      return StepCodes{integers, grid.Step()};
  }
  return std::nullopt;
}

constexpr std::optional<Format> ParseFormat(std::string_view name) {
  for (const FormatInfo& info : kFormats) {
    if (info.name == name) return info.format;
  }
  return std::nullopt;
}

}  // namespace tare
