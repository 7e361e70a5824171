// SPDX-License-Identifier: Apache-2.0
// What plans may say about a site: its selectors (l, h, m), granularities, options and integer formats. A granularity
// that the site lacks (heads of a weight) is refused. Formats:
//
//   unsigned integers                                values that cannot be negative; a difference, with a zero point
//   integers of 2 and 3 bits, other ranges of codes  weights, keys, values and caches
//   levels of a normal law                           weights, keys and values
//   ternary codes, E8P                               weights
//   bf16                                             caches
//   all others but integers                          everywhere but in caches
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>

#include "quant/format/format.h"
#include "quant/plan/site.h"

namespace tare {

struct SiteClass {
  std::string_view dimensions;  // letters of "lhm" that a selector may use
  std::span<const Granularity::Kind> granularities;
  std::string_view options;         // separated by blanks
  std::span<const Format> formats;  // signed ones first, if there are both
  std::string_view of_f32 = "";     // the options that f32 rules may have, too
  bool sums_over_tokens = false;    // the next product does: blocks that a format defines lie along tokens

  // f32 and the listed formats; without bf16 among them, also all others but those of weights.
  bool Takes(Format format) const {
    const auto has = [this](Format one) { return std::ranges::find(formats, one) != formats.end(); };
    const bool grid = HasCodes(format) && !IsInteger(format) && Info(format).statistic == Statistic::kLargest;
    return format == Format::kF32 || has(format) || (grid && !has(Format::kBf16));
  }
  // n neighbouring values along the dimension that the next product sums over: keys of a score or map, tokens of v,
  // else channels.
  Granularity InnerBlock(int n) const {
    if (sums_over_tokens) return {Granularity::Kind::kBlockChannel, n};
    const bool of_keys = std::ranges::contains(granularities, Granularity::Kind::kRow);
    return {of_keys ? Granularity::Kind::kBlock : Granularity::Kind::kGroup, n};
  }
  bool NeverNegative() const { return Info(formats.front()).min_code == 0; }
  // The format that a number of bits alone means here; nullopt if none has that many.
  std::optional<Format> OfBits(int bits) const {
    const auto found = std::ranges::find(formats, bits, [](Format format) { return Info(format).bits; });
    return found == formats.end() ? std::nullopt : std::optional(*found);
  }
};

// All sites of a group have the same class.
const SiteClass& ClassOf(Site site);

}  // namespace tare
