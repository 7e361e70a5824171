// SPDX-License-Identifier: Apache-2.0
// Number formats: a grid, and the scale that it is multiplied by. f32 means unquantized.
//
// Integers have codes: signed ones are symmetric, -(2^(b-1)-1) .. 2^(b-1)-1; unsigned ones, 0 .. 2^b-1, are for values
// that cannot be negative (probabilities) and, with a zero point (round.h), for values that lean to one side.
// Their scale is an f32, and integer kernels accept them. The others are MX formats, NVFP4, NVINT4 (arXiv 2510.25602)
// and IF4, which define how many values share a scale; FP8 and NF4 with an f32; ternary weights, whose scale is
// their mean magnitude; E8P, where eight weights share a code (grid.h); and normal4 to normal1, for what is normal
// after a rotation, whose scale is the root of the mean square. bf16, for caches only, has neither codes nor a scale.
//
// A suffix of the name selects another rule for the scale and for ties: mxfp4:rceil, nvfp4:4over6, fp8e4m3:floor (a
// power of two, as in MX, for the f32), mxfp4:ties-zero, mxfp4:rceil:ties-away. Users' lists are formats too (grid.h).
//
// A suffix with a plus gives signed integers another range of codes: int4+full, int4+zero, int4+min, and normal values
// and lists a mean: normal3+mean, grid(-1 0 1)+mean (CodeRange).
//
// A format is a value of 16 bytes: a base, which is a row of kFormats, and what its suffixes or its list change.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "quant/format/grid.h"

namespace tare {

// Which values share a scale, as plans spell it: "tensor", "group64", "block64.channel"; format.cc lists the kinds.
struct Granularity {
  enum class Kind {
    kTensor,
    kHead,
    kRow,
    kToken,
    kHeads,
    kTokens,
    kTokensBy8,
    kTokensBy4x2,
    kChannel,
    kGroup,
    kBlock,
    kBlockChannel
  };
  static constexpr int kMaxN = 65536;

  Kind kind = Kind::kTensor;
  int n = 0;  // 1 .. kMaxN for the kinds spelled with <N>, 0 for the others

  friend bool operator==(const Granularity&, const Granularity&) = default;
};

// "group64" for {kGroup, 64}; ParseGranularity(Name(g)) == g.
std::string Name(Granularity granularity);

// nullopt unless the text is exactly one of the spellings above; N has no sign and no leading zero.
std::optional<Granularity> ParseGranularity(std::string_view text);

// "tensor", "group<N>": a kind's spelling in messages; and which values share a scale, for docs/reference/plans.md.
std::string_view Spelling(Granularity::Kind kind);
std::string_view Meaning(Granularity::Kind kind);
// The number of scales that tokens<N> has for N tokens: 1, by8 8, by4x2 4; 0 for other kinds.
int ScalesOfTokens(Granularity::Kind kind);

// The magnitude of a group that determines its scale.
enum class Statistic { kLargest, kMean, kRootMeanSquare };

// Which values the codes of b bits cover. round.h has the formulas.
//   kOwn    the table's codes
//   kFull   symmetric with the lowest code, -2^(b-1) .. 2^(b-1)-1
//   kZero   0 .. 2^b-1 from the group's smallest value to its largest; a whole code, the zero point, stands for 0
//   kMin    0 .. 2^b-1 likewise; code 0 stands for the smallest value itself
//   kMean   of normal4 to normal1 and lists: their values times the group's deviation, about its mean
enum class CodeRange : uint8_t { kOwn, kFull, kZero, kMin, kMean };

struct Format {
  // In the order of kFormats.
  enum class Base : uint8_t {
    kF32,
    kInt8,
    kInt6,
    kInt4,
    kInt3,
    kInt2,
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
    kNvInt4,
    kIf4,
    kFp8E4M3,
    kFp8E5M2,
    kNf4,
    kTernary,
    kE8P,
    kNormal4,
    kNormal3,
    kNormal2,
    kNormal1,
    kBf16,
    kListed,
  };
  using enum Base;

  Base base = kF32;
  ScaleType scale = ScaleType::kF32;  // the base's own, or what a suffix selects
  Ties ties = Ties::kToEven;
  CodeRange range = CodeRange::kOwn;
  Levels levels;  // of kListed, and of it alone

  constexpr Format() = default;
  constexpr Format(Base own);  // the base without suffixes
  explicit Format(Levels values) : base(kListed), levels(std::move(values)) {}

  friend constexpr auto operator<=>(const Format&, const Format&) = default;
};

// What a format's codes and scales are.
struct FormatInfo {
  int bits = 0;
  int min_code = 0;  // of integers; 0 and 0 of all others
  int max_code = 0;  // "qmax": the code of a group's largest magnitude
  Grid grid{};       // of formats that are not integer
  int block = 0;     // values that share a scale by the format's definition; 0: the plan decides
  Statistic statistic = Statistic::kLargest;
  int together = 1;  // neighbouring values that have one code
  CodeRange range = CodeRange::kOwn;

  // What a group's largest magnitude is scaled to, in codes; with a zero point or a minimum, the group's whole range.
  // kFull scales to the middle of its two ends' magnitudes, 7.5 of int4+full. Of e8p and normal4 to normal1, what the
  // root of the mean square is scaled to: where normal values lose least, for e8p as QuIP# has it.
  constexpr float Largest() const {
    if (statistic == Statistic::kRootMeanSquare) return together > 1 ? 1.03f : 1.0f;
    if (max_code == 0) return grid.largest;
    return static_cast<float>(max_code) + (range == CodeRange::kFull ? 0.5f : 0.0f);
  }
  // The largest magnitude of a code.
  constexpr float LargestCode() const {
    return max_code == 0 ? grid.largest : static_cast<float>(std::max(max_code, -min_code));
  }
};

struct FormatRow {
  Format::Base base;
  std::string_view name;
  FormatInfo info;
  ScaleType scale = ScaleType::kF32;
};

inline constexpr auto kFormats = std::to_array<FormatRow>({
    {Format::kF32, "f32", {32}},
    {Format::kInt8, "int8", {8, -127, 127}},
    {Format::kInt6, "int6", {6, -31, 31}},
    {Format::kInt4, "int4", {4, -7, 7}},
    {Format::kInt3, "int3", {3, -3, 3}},
    {Format::kInt2, "int2", {2, -1, 1}},
    {Format::kU8, "u8", {8, 0, 255}},
    {Format::kU6, "u6", {6, 0, 63}},
    {Format::kU4, "u4", {4, 0, 15}},
    {Format::kMxFp4, "mxfp4", {4, 0, 0, kE2M1, 32}, ScaleType::kE8M0Floor},
    {Format::kMxFp6E2M3, "mxfp6e2m3", {6, 0, 0, kE2M3, 32}, ScaleType::kE8M0Floor},
    {Format::kMxFp6E3M2, "mxfp6e3m2", {6, 0, 0, kE3M2, 32}, ScaleType::kE8M0Floor},
    {Format::kMxFp8E4M3, "mxfp8e4m3", {8, 0, 0, kE4M3, 32}, ScaleType::kE8M0Floor},
    {Format::kMxFp8E5M2, "mxfp8e5m2", {8, 0, 0, kE5M2, 32}, ScaleType::kE8M0Floor},
    {Format::kMxInt8, "mxint8", {8, 0, 0, kSixtyFourths, 32}, ScaleType::kE8M0Floor},
    {Format::kNvFp4, "nvfp4", {4, 0, 0, kE2M1, 16}, ScaleType::kTwoLevel},
    {Format::kNvInt4, "nvint4", {4, 0, 0, kE1M2, 16}, ScaleType::kTwoLevel},
    {Format::kIf4, "if4", {4, 0, 0, kE2M1OrSevenths, 16}, ScaleType::kTwoLevelSigned},
    {Format::kFp8E4M3, "fp8e4m3", {8, 0, 0, kE4M3}},
    {Format::kFp8E5M2, "fp8e5m2", {8, 0, 0, kE5M2}},
    {Format::kNf4, "nf4", {4, 0, 0, kNormalQuantiles}},
    {Format::kTernary, "ternary", {2, 0, 0, kSigns, 0, Statistic::kMean}},
    {Format::kE8P, "e8p", {2, 0, 0, kLatticeValues, 0, Statistic::kRootMeanSquare, kLatticeWidth}},
    {Format::kNormal4, "normal4", {4, 0, 0, kLloydMax4, 0, Statistic::kRootMeanSquare}},
    {Format::kNormal3, "normal3", {3, 0, 0, kLloydMax3, 0, Statistic::kRootMeanSquare}},
    {Format::kNormal2, "normal2", {2, 0, 0, kLloydMax2, 0, Statistic::kRootMeanSquare}},
    {Format::kNormal1, "normal1", {1, 0, 0, kLloydMax1, 0, Statistic::kRootMeanSquare}},
    {Format::kBf16, "bf16", {16}},
    {Format::kListed, kGridMark, {8}},  // its grid, and often fewer bits, follow from the list
});

constexpr const FormatRow& RowOf(Format::Base base) { return kFormats[static_cast<size_t>(base)]; }

constexpr Format::Format(Base own) : base(own), scale(RowOf(own).scale) {}

// A row as its ties and its range of codes change it.
constexpr FormatInfo Changed(FormatInfo info, Ties ties, CodeRange range) {
  info.grid.ties = ties;
  info.range = range;
  if (range == CodeRange::kMean) info.statistic = Statistic::kRootMeanSquare;
  if (range == CodeRange::kOwn || range == CodeRange::kMean) return info;
  const int codes = 1 << std::min(info.bits, 8);
  info.min_code = range == CodeRange::kFull ? -codes / 2 : 0;
  info.max_code = info.min_code + codes - 1;
  return info;
}

// [range][ties][base]: loops ask for each value, so that what it says is looked up and not made.
inline constexpr auto kInfos = [] {
  std::array<std::array<std::array<FormatInfo, kFormats.size()>, 3>, 5> all;
  for (size_t range = 0; range < all.size(); ++range) {
    for (size_t ties = 0; ties < all[range].size(); ++ties) {
      for (size_t base = 0; base < kFormats.size(); ++base)
        all[range][ties][base] = Changed(kFormats[base].info, static_cast<Ties>(ties), static_cast<CodeRange>(range));
    }
  }
  return all;
}();

constexpr const FormatInfo& Info(Format::Base base) { return RowOf(base).info; }
// The reference to the info of a list is valid as long as a format has the list.
constexpr const FormatInfo& Info(const Format& format) {
  if (!format.levels.empty()) return format.levels.Info(format.range);
  return kInfos[static_cast<size_t>(format.range)][static_cast<size_t>(format.ties)][static_cast<size_t>(format.base)];
}

// True for codes with a scale; f32 and bf16 have none.
constexpr bool HasCodes(const Format& format) { return format.base != Format::kF32 && format.base != Format::kBf16; }

// Integer codes and an f32 scale.
constexpr bool IsInteger(const Format& format) { return Info(format.base).max_code > 0; }

// Whether each group has a zero point, a minimum or a mean besides its scale.
constexpr bool HasOffset(const Format& format) { return format.range >= CodeRange::kZero; }

constexpr Format WithRange(Format format, CodeRange range) {
  format.range = range;
  return format;
}

// Normal values and lists may have a mean, of keys and values and in no file; signed integers the others.
constexpr bool TakesRange(const Format& format, CodeRange range) {
  const FormatInfo& own = Info(format.base);
  if (range != CodeRange::kMean) return own.min_code < 0;
  return format.base == Format::kListed || (own.statistic == Statistic::kRootMeanSquare && own.together == 1);
}

// The narrowest integers of 4, 6 or 8 bits, as kernels take them, whose codes, times `step`, cover all values of a
// format before its scale: int4 for int3 and int2, int6 for mxfp4 (12 steps of 0.5) and e8p (11 quarters), int8 for
// mxfp6e2m3 (60 steps of 1/8) and for mxint8. Empty if there are none (E3M2 goes to 448).
struct StepCodes {
  Format format;
  float step;
};
std::optional<StepCodes> AsStepCodes(const Format& format);

// "mxfp4:rceil", "int4+zero", "grid(-1 0 1)+mean".
std::string Name(const Format& format);

// The format of a name without a range, which plans write after the granularity. Throws Error for an invalid list.
std::optional<Format> ParseFormat(std::string_view name);
// The format of a matrix of codes, as files name it: also integers with another range, as int4+zero.
std::optional<Format> ParseMatrixFormat(std::string_view name);
// "zero": the word after a plan's plus.
std::optional<CodeRange> ParseCodeRange(std::string_view word);

// Every name that the table gives: its bases, then each with every suffix but ranges.
std::vector<Format> SpelledFormats();

}  // namespace tare
