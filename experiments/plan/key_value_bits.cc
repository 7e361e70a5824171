// SPDX-License-Identifier: Apache-2.0
#include "experiments/plan/key_value_bits.h"

#include <algorithm>
#include <bit>

#include "experiments/plan/shared_scales.h"
#include "kernels/cache/page_layout.h"
#include "quant/file/json_value.h"

namespace tare {
namespace {

using Kind = Granularity::Kind;

constexpr double kUnquantized = 16, kOutlier = 32;

// How many values of a head's row, or of a channel's tokens, share a scale, one after another until all have one.
struct Sharing {
  int64_t row = 0;    // values in all; 0: a whole text shares it
  int64_t group = 0;  // values of one scale, but for a last one of fewer
};

Sharing SharingOf(const Rule& rule, int64_t width) {
  switch (rule.granularity.kind) {
    case Kind::kToken:
      return {width, width};
    case Kind::kGroup:
      return {width, std::min<int64_t>(rule.granularity.n, width)};
    case Kind::kBlockChannel:
      return {rule.granularity.n, rule.granularity.n};
    case Kind::kChannel:
      if (IsCache(rule.sites.front())) return {kPageTokens, kPageTokens};
      return {};
    default:
      return {};
  }
}

// Bits of the scales, and what stands beside each; of a byte in MX and NVFP4. Caches hold a zero point as a minimum.
double ScaleBits(const Format& format, double of_f32, bool of_cache) {
  double bits = format.scale == ScaleType::kF32 ? of_f32 : 8;
  if (format.range == CodeRange::kZero) bits += of_cache ? of_f32 : Info(format).bits;
  if (format.range == CodeRange::kMin || format.range == CodeRange::kMean) bits += of_f32;
  return bits;
}

// Of a rule of `k`, `v` or a cache, per value.
double BitsOf(const Rule* rule, int64_t width) {
  if (rule == nullptr || !HasCodes(rule->format)) return kUnquantized;
  const bool of_cache = IsCache(rule->sites.front());
  const bool in_runs = rule->granularity.kind == Kind::kGroup || rule->granularity.kind == Kind::kBlockChannel;
  const double of_f32 = of_cache && !in_runs ? 32 : kUnquantized;
  const auto [row, group] = SharingOf(*rule, width);
  const std::optional<double>& percent = rule->options.outliers;
  double beside = 0;  // bits of a row beside its codes
  for (int64_t first = 0; first < row; first += group) {
    beside += ScaleBits(rule->format, of_f32, of_cache);
    if (percent) beside += kOutlier * static_cast<double>(OutliersOf(std::min(group, row - first), *percent));
  }
  double bits = CodeBits(*rule) + (row == 0 ? 0 : beside / static_cast<double>(row));
  if (row == 0 && percent) bits += *percent / 100 * kOutlier;
  if (rule->options.sketch) bits += 1 + of_f32 / static_cast<double>(width);
  return bits;
}

bool Rounds(const Rule* rule) { return rule != nullptr && rule->format != Format::kF32; }

double MeanOf(const Plan& plan, const Plan& caches, const ModelSites& model, Site site, Site cache) {
  double sum = 0, places = 0;
  for (const SiteKey& key : model.Keys(site)) {
    const Rule* const of_cache = caches.Match({.site = cache, .layer = key.layer});
    sum += BitsOf(Rounds(of_cache) ? of_cache : plan.Match(key), model.head_dim);
    places += 1;
  }
  return places == 0 ? kUnquantized : sum / places;
}

}  // namespace

int CodeBits(const Rule& rule) {
  const FormatInfo& info = Info(rule.format);
  if (info.grid.levels.empty() || IsWeight(rule.sites.front())) return info.bits;
  return std::bit_width(info.grid.levels.size() - 1);
}

std::optional<KeyValueBits> KeyValueBitsOf(const Plan& plan, const Plan& caches, const ModelSites& model) {
  const bool any = plan.Touches(Site::kK) || plan.Touches(Site::kV) || caches.Touches(Site::kCacheK) ||
                   caches.Touches(Site::kCacheV);
  if (model.head_dim == 0 || !any) return std::nullopt;
  return KeyValueBits{.keys = MeanOf(plan, caches, model, Site::kK, Site::kCacheK),
                      .values = MeanOf(plan, caches, model, Site::kV, Site::kCacheV)};
}

Json ToJson(const std::optional<KeyValueBits>& bits) {
  return bits ? Json{{"key_bits", bits->keys}, {"value_bits", bits->values}} : Json::object();
}

}  // namespace tare
