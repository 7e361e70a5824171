// SPDX-License-Identifier: Apache-2.0
// What a plan may say about a site: which of l, h and m it has, which granularities and options mean something there,
// and which integers: unsigned ones for what cannot be negative, both for a difference (there with a zero point);
// ternary codes are of weights. Other formats mean something everywhere but in caches, which take bf16; scales that
// span what a site has not (heads of a weight) are not admitted.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>

#include "quant/format/format.h"
#include "quant/format/granularity.h"
#include "quant/plan/site.h"

namespace tare {

struct SiteClass {
  std::string_view dimensions;  // the letters that a selector may use, of "lhm"
  std::span<const Granularity::Kind> granularities;
  std::string_view options;         // separated by blanks
  std::span<const Format> formats;  // signed ones first, where there are both
  std::string_view of_f32 = "";     // those of the options that mean something of f32, too

  // f32 and those listed; where no bf16 is among them, also what is neither integer nor ternary.
  bool Takes(Format format) const {
    const auto has = [this](Format one) { return std::ranges::find(formats, one) != formats.end(); };
    const bool grid = HasCodes(format) && !IsInteger(format) && Info(format).statistic == Statistic::kLargest;
    return format == Format::kF32 || has(format) || (grid && !has(Format::kBf16));
  }
  // n values side by side where the product that follows sums over them: keys of a score or map, tokens of v, else
  // channels.
  Granularity InnerBlock(int n) const {
    const auto has = [this](Granularity::Kind kind) {
      return std::ranges::find(granularities, kind) != granularities.end();
    };
    if (has(Granularity::Kind::kBlockChannel)) return {Granularity::Kind::kBlockChannel, n};
    return {has(Granularity::Kind::kRow) ? Granularity::Kind::kBlock : Granularity::Kind::kGroup, n};
  }
  bool NeverNegative() const { return Info(formats.front()).min_code == 0; }
  // The format that a number of bits alone stands for here; nullopt if none has that many.
  std::optional<Format> OfBits(int bits) const {
    const auto found = std::ranges::find(formats, bits, [](Format format) { return Info(format).bits; });
    return found == formats.end() ? std::nullopt : std::optional(*found);
  }
};

// The sites of a group are of one class.
const SiteClass& ClassOf(Site site);

}  // namespace tare
