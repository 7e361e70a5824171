// SPDX-License-Identifier: Apache-2.0
// Number formats: a grid, and the scale that it is multiplied by. f32 means unquantized.
//
// Integers have codes: signed ones are symmetric, -(2^(b-1)-1) .. 2^(b-1)-1; unsigned ones, 0 .. 2^b-1, are for values
// that cannot be negative (probabilities) and, with a zero point (zero_point.h), for values that lean to one side.
// Their scale is an f32, and integer kernels accept them. The others are MX formats and NVFP4, which define how many
// values share a scale; FP8 and NF4 with an f32; ternary weights, whose scale is their mean magnitude; E8P, where
// eight weights share a code (lattice.h); and normal4 to normal1, for what is normal after a rotation, whose scale is
// the root of the mean square. bf16, for caches only, has neither codes nor a scale.
//
// A suffix of the name selects another rule for the scale and for ties: mxfp4:rceil, nvfp4:256, fp8e4m3:floor (a power
// of two, as in MX, instead of the f32), mxfp4:ties-zero, mxfp4:rceil:ties-away. These follow from the table. A user's
// own list of values is a format too (listed_grid.h).
//
// A suffix with a plus gives signed integers another range of codes: int4+full, int4+zero, int4+min, and normal values
// and lists a mean: normal3+mean, grid(-1 0 1)+mean (CodeRange).
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "quant/format/block_scale.h"
#include "quant/format/grid.h"
#include "quant/format/listed_grid.h"

namespace tare {

// The formats of the table; then names with a colon, in the order of kFormats; then lists of values.
enum class Format {
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
};

// The magnitude of a group that determines its scale.
enum class Statistic { kLargest, kMean, kRootMeanSquare };

// Which values the codes of b bits cover. round.h has the formulas.
//   kOwn    the table's codes
//   kFull   symmetric with the lowest code, -2^(b-1) .. 2^(b-1)-1
//   kZero   0 .. 2^b-1 from the group's smallest value to its largest; a whole code, the zero point, stands for 0
//   kMin    0 .. 2^b-1 likewise; code 0 stands for the smallest value itself
//   kMean   of normal4 to normal1 and lists: their values times the group's deviation, about its mean
enum class CodeRange { kOwn, kFull, kZero, kMin, kMean };

struct FormatInfo {
  Format format = Format::kF32;
  std::string_view name;
  int bits = 0;
  int min_code = 0;  // of integers; 0 and 0 of all others
  int max_code = 0;  // "qmax": the code of a group's largest magnitude
  Grid grid{};       // of formats that are not integer
  ScaleType scale = ScaleType::kF32;
  int block = 0;  // values that share a scale by the format's definition; 0: the plan decides
  Statistic statistic = Statistic::kLargest;
  CodeRange range = CodeRange::kOwn;
  int together = 1;  // neighbouring values that have one code

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

inline constexpr auto kBaseFormats = std::to_array<FormatInfo>({
    {Format::kF32, "f32", 32},
    {Format::kInt8, "int8", 8, -127, 127},
    {Format::kInt6, "int6", 6, -31, 31},
    {Format::kInt4, "int4", 4, -7, 7},
    {Format::kInt3, "int3", 3, -3, 3},
    {Format::kInt2, "int2", 2, -1, 1},
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
    {Format::kTernary, "ternary", 2, 0, 0, kSigns, ScaleType::kF32, 0, Statistic::kMean},
    {Format::kE8P, "e8p", 2, 0, 0, kLatticeValues, ScaleType::kF32, 0, Statistic::kRootMeanSquare, CodeRange::kOwn,
     kLatticeWidth},
    {Format::kNormal4, "normal4", 4, 0, 0, kLloydMax4, ScaleType::kF32, 0, Statistic::kRootMeanSquare},
    {Format::kNormal3, "normal3", 3, 0, 0, kLloydMax3, ScaleType::kF32, 0, Statistic::kRootMeanSquare},
    {Format::kNormal2, "normal2", 2, 0, 0, kLloydMax2, ScaleType::kF32, 0, Statistic::kRootMeanSquare},
    {Format::kNormal1, "normal1", 1, 0, 0, kLloydMax1, ScaleType::kF32, 0, Statistic::kRootMeanSquare},
    {Format::kBf16, "bf16", 16},
});

// What a name may have after a colon: another type of scale than the table's, or other ties.
struct ScaleWord {
  std::string_view word;
  ScaleType table, scale;
};
inline constexpr auto kScaleWords = std::to_array<ScaleWord>({
    {":ceil", ScaleType::kE8M0Floor, ScaleType::kE8M0Ceil},
    {":rceil", ScaleType::kE8M0Floor, ScaleType::kE8M0Rceil},
    {":even", ScaleType::kE8M0Floor, ScaleType::kE8M0Even},
    {":256", ScaleType::kTwoLevel, ScaleType::kTwoLevel256},
    {":floor", ScaleType::kF32, ScaleType::kE8M0Floor},
    {":ceil", ScaleType::kF32, ScaleType::kE8M0Ceil},
    {":rceil", ScaleType::kF32, ScaleType::kE8M0Rceil},
    {":even", ScaleType::kF32, ScaleType::kE8M0Even},
});
struct TiesWord {
  std::string_view word;
  Ties ties;
};
inline constexpr auto kTiesWords = std::to_array<TiesWord>({
    {":ties-away", Ties::kAwayFromZero},
    {":ties-zero", Ties::kTowardZero},
});

struct SpelledFormat {
  std::array<char, 32> name{};
  FormatInfo info;
};

// The table's names, and each with every suffix.
consteval std::vector<SpelledFormat> SpelledFormats() {
  std::vector<SpelledFormat> all;
  const auto add = [&all](FormatInfo info, std::string_view scale_word, std::string_view ties_word) {
    SpelledFormat spelled;
    auto end = spelled.name.begin();
    for (const std::string_view part : {info.name, scale_word, ties_word}) end = std::ranges::copy(part, end).out;
    info.format = static_cast<Format>(all.size());
    spelled.info = info;
    all.push_back(spelled);
  };
  const auto add_ties = [&add](FormatInfo info, std::string_view scale_word) {
    if (!info.grid.levels.empty()) return;
    for (const TiesWord& ties : kTiesWords) {
      info.grid.ties = ties.ties;
      add(info, scale_word, ties.word);
    }
  };
  for (const FormatInfo& info : kBaseFormats) add(info, "", "");
  for (const FormatInfo& base : kBaseFormats) {
    if (base.grid.largest == 0.0f || base.statistic != Statistic::kLargest) continue;
    add_ties(base, "");
    for (const ScaleWord& scale : kScaleWords) {
      if (scale.table != base.scale) continue;
      FormatInfo info = base;
      info.scale = scale.scale;
      add(info, scale.word, "");
      add_ties(info, scale.word);
    }
  }
  return all;
}

inline constexpr auto kSpelledFormats = [] {
  std::array<SpelledFormat, SpelledFormats().size()> all;
  std::ranges::copy(SpelledFormats(), all.begin());
  return all;
}();

inline constexpr auto kFormats = [] {
  std::array<FormatInfo, kSpelledFormats.size()> rows;
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i] = kSpelledFormats[i].info;
    rows[i].name = kSpelledFormats[i].name.data();
  }
  return rows;
}();

// Integers with another range: numbered by the range above their own number's sixteen bits, so after all lists.
struct RangeWord {
  std::string_view word;
  CodeRange range;
};
inline constexpr auto kRangeWords = std::to_array<RangeWord>({
    {"full", CodeRange::kFull},
    {"zero", CodeRange::kZero},
    {"min", CodeRange::kMin},
});
inline constexpr auto kRangedBases =
    std::to_array<Format>({Format::kInt8, Format::kInt6, Format::kInt4, Format::kInt3, Format::kInt2});
inline constexpr size_t kRangedFrom = size_t{1} << 16;

constexpr Format WithRange(Format base, CodeRange range) {
  return static_cast<Format>(static_cast<size_t>(range) * kRangedFrom + static_cast<size_t>(base));
}

inline constexpr auto kRangedFormats = [] {
  std::array<SpelledFormat, kRangedBases.size() * kRangeWords.size()> all;
  auto next = all.begin();
  for (const auto& [word, range] : kRangeWords) {
    for (const Format base : kRangedBases) {
      FormatInfo info = kFormats[static_cast<size_t>(base)];
      const int codes = 1 << info.bits;
      info.format = WithRange(base, range);
      info.range = range;
      info.min_code = range == CodeRange::kFull ? -codes / 2 : 0;
      info.max_code = info.min_code + codes - 1;
      auto end = next->name.begin();
      for (const std::string_view part : {info.name, std::string_view("+"), word})
        end = std::ranges::copy(part, end).out;
      (next++)->info = info;
    }
  }
  return all;
}();

inline constexpr auto kRangedInfos = [] {
  std::array<FormatInfo, kRangedFormats.size()> rows;
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i] = kRangedFormats[i].info;
    rows[i].name = kRangedFormats[i].name.data();
  }
  return rows;
}();

// Normal values about a mean; of keys and values, in no file.
inline constexpr auto kMeanInfos = [] {
  std::array rows{kFormats[static_cast<size_t>(Format::kNormal4)], kFormats[static_cast<size_t>(Format::kNormal3)],
                  kFormats[static_cast<size_t>(Format::kNormal2)], kFormats[static_cast<size_t>(Format::kNormal1)]};
  constexpr std::string_view kNames[] = {"normal4+mean", "normal3+mean", "normal2+mean", "normal1+mean"};
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].format = WithRange(rows[i].format, CodeRange::kMean);
    rows[i].name = kNames[i];
    rows[i].range = CodeRange::kMean;
  }
  return rows;
}();

constexpr Format WithoutRange(Format format) {
  const auto row = static_cast<size_t>(format);
  return row < kRangedFrom ? format : static_cast<Format>(row % kRangedFrom);
}

// A list of values, without a range.
constexpr bool IsListed(Format format) {
  const auto row = static_cast<size_t>(format);
  return kFormats.size() <= row && row < kRangedFrom;
}

constexpr const FormatInfo& RangedInfo(Format format) {
  const Format base = WithoutRange(format);
  if (static_cast<size_t>(base) >= kFormats.size()) return ListedAboutMean(base);
  const auto about_mean = std::ranges::find(kMeanInfos, format, &FormatInfo::format);
  if (about_mean != kMeanInfos.end()) return *about_mean;
  return *std::ranges::find(kRangedInfos, format, &FormatInfo::format);
}

constexpr const FormatInfo& Info(Format format) {
  const auto row = static_cast<size_t>(format);
  if (row < kFormats.size()) return kFormats[row];
  return row < kRangedFrom ? ListedInfo(format) : RangedInfo(format);
}

// True for codes with a scale; f32 and bf16 have none.
constexpr bool HasCodes(Format format) { return format != Format::kF32 && format != Format::kBf16; }

// Integer codes and an f32 scale.
constexpr bool IsInteger(Format format) { return Info(format).max_code > 0; }

// Whether each group has a zero point, a minimum or a mean besides its scale.
constexpr bool HasOffset(Format format) {
  const CodeRange range = Info(format).range;
  return range == CodeRange::kZero || range == CodeRange::kMin || range == CodeRange::kMean;
}

// The narrowest integers of 4, 6 or 8 bits, as kernels take them, whose codes, times `step`, cover all values of a
// format before its scale: int4 for int3 and int2, int6 for mxfp4 (12 steps of 0.5) and e8p (11 quarters), int8 for
// mxfp6e2m3 (60 steps of 1/8) and for mxint8. Empty if there are none (E3M2 goes to 448).
struct StepCodes {
  Format format;
  float step;
};
constexpr std::optional<StepCodes> AsStepCodes(Format format) {
  const Grid& grid = Info(format).grid;
  if (IsInteger(format))
    return StepCodes{Info(format).bits >= 4 ? format : WithRange(Format::kInt4, Info(format).range), 1.0f};
  if (format == Format::kE8P) return StepCodes{Format::kInt6, 0.25f};
  if (!HasCodes(format) || !grid.levels.empty()) return std::nullopt;
  for (const Format integers : {Format::kInt4, Format::kInt6, Format::kInt8}) {
    if (grid.largest <= grid.Step() * static_cast<float>(Info(integers).max_code))
      return StepCodes{integers, grid.Step()};
  }
  return std::nullopt;
}

// Throws Error for an invalid list of values (listed_grid.h).
constexpr std::optional<Format> ParseFormat(std::string_view name) {
  if (name.starts_with(kGridMark)) return ListedFormat(name);
  for (const FormatInfo& info : kFormats) {
    if (info.name == name) return info.format;
  }
  return std::nullopt;
}

// Of a matrix of codes, as files name it: also integers with another range, as int4+zero. Plans write the range after
// the granularity.
constexpr std::optional<Format> ParseMatrixFormat(std::string_view name) {
  for (const FormatInfo& info : kRangedInfos) {
    if (info.name == name) return info.format;
  }
  return ParseFormat(name);
}

}  // namespace tare
