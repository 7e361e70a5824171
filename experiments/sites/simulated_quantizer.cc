// SPDX-License-Identifier: Apache-2.0
#include "experiments/sites/simulated_quantizer.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "experiments/model/family.h"
#include "kernels/attention/prefix_mean.h"
#include "kernels/elementwise/rows.h"
#include "quant/base/error.h"
#include "quant/format/round.h"

namespace tare {
namespace {

using Kind = Granularity::Kind;

bool Surveyed(Kind kind) { return kind == Kind::kTensor || kind == Kind::kHead; }

bool RowByRow(Kind kind) {
  return kind == Kind::kRow || kind == Kind::kToken || kind == Kind::kGroup || kind == Kind::kBlock;
}

bool OfWeights(Site site) { return (site <= Site::kDownProjW && site != Site::kEmbed) || site == Site::kLmHeadW; }

void CheckSite(const Rule& rule, Site site, const ModelConfig& config) {
  if (site == Site::kCacheK || site == Site::kCacheV)
    Fail("plan rule '{}': this build cannot simulate the site {}; expected an activation or weights", rule.text,
         Name(site));
  if (site == Site::kDifference && Maps(config) == 1)
    Fail("plan rule '{}': a {} model has no difference of maps; try probs", rule.text, config.family);
  if ((site == Site::kProbs || site == Site::kDifference) && Surveyed(rule.granularity.kind))
    Fail("plan rule '{}': this build cannot simulate {} with this granularity; expected row or block<N>", rule.text,
         Name(site));
  const auto check = [&](const std::optional<IndexRange>& range, int base, int count, const char* what) {
    if (range && range->first >= base + count) {
      Fail("plan rule '{}': selects {} {} and above, but the model has {} {}{}", rule.text, what, range->first, count,
           what, count == 1 ? "" : "s");
    }
  };
  check(rule.selector.layers, 0, config.layers, "layer");
  check(rule.selector.heads, 0, HeadsOf(site, config), "head");
  check(rule.selector.maps, 1, Maps(config), "map");
}

bool HasZeroPoint(const Rule& rule) {
  return rule.sites.front() == Site::kDifference && Info(rule.format).min_code == 0;
}

bool Clips(const RuleOptions& options) { return options.percentile.has_value() || options.mse; }

void CheckRule(const Rule& rule, const ModelConfig& config, bool has_statistics) {
  if (rule.format == Format::kF32) return;
  for (const Site site : rule.sites) CheckSite(rule, site, config);
  RuleOptions options = rule.options;
  const Site site = rule.sites.front();
  if ((site == Site::kQ || site == Site::kK || site == Site::kV) && !Surveyed(rule.granularity.kind))
    options.smooth = false;  // a survey would see unshifted values
  if (HasZeroPoint(rule)) {
    // no options: a zero point follows both ends of a group
  } else if (OfWeights(site)) {
    options.mse = false;  // Model::PlanLinear quantizes them
  } else if (options.static_scale) {
    if (!has_statistics) Fail("plan rule '{}': +static needs statistics; try --stats FILE.h5", rule.text);
    options.static_scale = options.mse = false, options.percentile.reset();
  } else if (!Surveyed(rule.granularity.kind)) {
    options.mse = false, options.percentile.reset();  // a survey keeps maxima alone
  }
  if (options != RuleOptions{})
    Fail("plan rule '{}': this build cannot simulate its options; try it without them", rule.text);
}

float CheckedAbsmax(const SiteBlock& block, int64_t r, std::span<const float> values) {
  const float absmax = AbsMax(values.data(), values.size());
  if (!std::isfinite(absmax)) {
    Fail(
        "{}, layer {}, head {}, sequence {}, row {}: NaN or infinity, which no scale can hold; try the model without a "
        "plan",
        Name(block.site), block.layer, block.head, block.sequence, block.first_row + r);
  }
  return absmax;
}

// Unsigned codes of a difference: of both signs, so with a zero point.
void QuantizeWithZeroPoint(std::span<float> group, Format format) {
  const auto [smallest, largest] = std::ranges::minmax(group);
  FakeQuantize(group.data(), group.size(), ZeroPointScaleFor(smallest, largest, format), format);
}

// Rows, each in groups of n neighbouring values (0: whole rows).
void QuantizeRows(const SiteBlock& block, const Rule& rule) {
  for (int64_t r = 0; r < block.rows; ++r) {
    const std::span<float> row = block.Row(r);
    const size_t n = rule.granularity.n == 0 ? row.size() : static_cast<size_t>(rule.granularity.n);
    for (size_t begin = 0; begin < row.size(); begin += n) {
      const std::span<float> group = row.subspan(begin, std::min(n, row.size() - begin));
      const float absmax = CheckedAbsmax(block, r, group);
      if (HasZeroPoint(rule)) {
        QuantizeWithZeroPoint(group, rule.format);
      } else {
        const float clip = DynamicClip(rule, group, absmax);
        FakeQuantize(group.data(), group.size(), ScaleFor(clip, rule.format), rule.format);
      }
    }
  }
}

// Rows [begin, end), a scale a channel.
void QuantizeChannels(const SiteBlock& block, Format format, int64_t begin, int64_t end,
                      const std::vector<float>& clips) {
  for (int64_t r = begin; r < end; ++r) {
    for (size_t i = 0; i < clips.size(); ++i) {
      const Scale scale = ScaleFor(clips[i], format);
      float& x = block.Row(r)[i];
      x = static_cast<float>(CodeOf(x, scale.inv, format)) * scale.scale;
    }
  }
}

void ClipChannels(const SiteBlock& block, const Rule& rule, int64_t begin, int64_t end, std::vector<float>& clips) {
  std::vector<float> column(static_cast<size_t>(end - begin));
  for (size_t i = 0; i < clips.size(); ++i) {
    for (int64_t r = begin; r < end; ++r) column[r - begin] = block.Row(r)[i];
    clips[i] = DynamicClip(rule, column, clips[i]);
  }
}

// A channel over n rows at a time (0: over all).
void QuantizeColumns(const SiteBlock& block, const Rule& rule) {
  TARE_CHECK(block.first_row == 0 && block.column_step == 0);  // blocks of tokens count from the sequence's first
  const auto columns = static_cast<size_t>(block.first_columns);
  const int64_t n = rule.granularity.n == 0 ? block.rows : rule.granularity.n;
  std::vector<float> absmax(columns);
  for (int64_t begin = 0; begin < block.rows; begin += n) {
    const int64_t end = std::min(begin + n, block.rows);
    std::ranges::fill(absmax, 0.0f);
    for (int64_t r = begin; r < end; ++r) {
      CheckedAbsmax(block, r, block.Row(r));
      for (size_t i = 0; i < columns; ++i) absmax[i] = std::max(absmax[i], std::fabs(block.Row(r)[i]));
    }
    if (Clips(rule.options)) ClipChannels(block, rule, begin, end, absmax);
    QuantizeChannels(block, rule.format, begin, end, absmax);
  }
}

// NaN and infinities are refused here too, where no maximum is taken.
void QuantizeStatic(const SiteBlock& block, const Rule& rule, const std::vector<float>& clips) {
  for (int64_t r = 0; r < block.rows; ++r) CheckedAbsmax(block, r, block.Row(r));
  if (rule.granularity.kind == Kind::kChannel) {
    if (std::ssize(clips) != block.first_columns || block.column_step != 0)
      Fail("plan rule '{}': statistics of {} channels, expected {}", rule.text, clips.size(), block.first_columns);
    QuantizeChannels(block, rule.format, 0, block.rows, clips);
    return;
  }
  for (int64_t r = 0; r < block.rows; ++r)
    FakeQuantize(block.Row(r).data(), block.Row(r).size(), ScaleFor(clips.at(0), rule.format), rule.format);
}

void QuantizeWith(const SiteBlock& block, const Rule& rule, float absmax) {
  const Scale scale = ScaleFor(absmax, rule.format);
  for (int64_t r = 0; r < block.rows; ++r) FakeQuantize(block.Row(r).data(), block.Row(r).size(), scale, rule.format);
}

// Each row of probabilities sums to 1 again.
void Normalise(const SiteBlock& block) {
  for (int64_t r = 0; r < block.rows; ++r) {
    double sum = 0;
    for (const float p : block.Row(r)) sum += p;
    if (sum > 0) ScaleInto(block.Row(r).data(), static_cast<float>(1 / sum), block.Row(r).size(), block.Row(r).data());
  }
}

void Shift(const SiteBlock& block, const std::vector<float>& mean, float factor) {
  for (int64_t r = 0; r < block.rows; ++r) SubtractScaled(block.Row(r).data(), mean.data(), factor, mean.size());
}

}  // namespace

SimulatedQuantizer::SimulatedQuantizer(Plan plan, const ModelConfig& config, StaticSource statics)
    : plan_(std::move(plan)), static_clips_(std::move(statics)), layers_(config.layers), heads_(config.heads) {
  for (const Rule& rule : plan_.rules()) CheckRule(rule, config, static_clips_.Known());
}

bool SimulatedQuantizer::SpansRows() const {
  return std::ranges::any_of(plan_.rules(), [](const Rule& rule) {
    const bool by_row = RowByRow(rule.granularity.kind) || rule.options.static_scale;
    return rule.format != Format::kF32 && !OfWeights(rule.sites.front()) && (!by_row || rule.options.smooth);
  });
}

bool SimulatedQuantizer::Wants(Site site, int) const { return plan_.Touches(site); }

bool SimulatedQuantizer::NeedsSurvey(Site site, int) const {
  return std::ranges::any_of(plan_.rules(), [site](const Rule& rule) {
    return rule.format != Format::kF32 && Surveyed(rule.granularity.kind) && !rule.options.static_scale &&
           std::ranges::find(rule.sites, site) != rule.sites.end();
  });
}

void SimulatedQuantizer::BeginBatch(int64_t slots) {
  absmax_ = std::vector<std::atomic<uint32_t>>(static_cast<size_t>(slots) * (1 + layers_) * kSites.size() *
                                               (heads_ + plan_.rules().size()));
}

const Rule* SimulatedQuantizer::RuleFor(const SiteBlock& block) const {
  const Rule* rule = plan_.Match(block.site, block.layer, block.head, block.map);
  return rule == nullptr || rule->format == Format::kF32 ? nullptr : rule;
}

std::atomic<uint32_t>& SimulatedQuantizer::Absmax(const SiteBlock& block, const Rule& rule) {
  const bool by_tensor = rule.granularity.kind == Kind::kTensor;
  const auto place = by_tensor ? heads_ + (&rule - plan_.rules().data()) : ptrdiff_t{block.head};
  const size_t layer = static_cast<size_t>(block.slot) * (1 + layers_) + 1 + block.layer;
  return absmax_[(layer * kSites.size() + static_cast<size_t>(block.site)) * (heads_ + plan_.rules().size()) + place];
}

void SimulatedQuantizer::Survey(const SiteBlock& block, int) {
  const Rule* rule = RuleFor(block);
  if (rule == nullptr || !Surveyed(rule->granularity.kind) || rule->options.static_scale) return;
  float absmax = 0;
  for (int64_t r = 0; r < block.rows; ++r) absmax = std::max(absmax, CheckedAbsmax(block, r, block.Row(r)));
  std::atomic<uint32_t>& shared = Absmax(block, *rule);
  const auto bits = std::bit_cast<uint32_t>(absmax);
  uint32_t seen = shared.load(std::memory_order_relaxed);
  while (seen < bits && !shared.compare_exchange_weak(seen, bits, std::memory_order_relaxed)) {
  }
}

void SimulatedQuantizer::Visit(const SiteBlock& block, int) {
  const Rule* rule = RuleFor(block);
  if (rule == nullptr) return;
  std::vector<float> mean;
  if (rule->options.smooth) {
    TARE_CHECK(block.first_row == 0);  // the prefix of the sequence
    mean.resize(static_cast<size_t>(block.first_columns));
    MeanOfPrefix({block.values, block.rows, 1, static_cast<int>(block.first_columns), block.stride, 0}, mean.data());
    Shift(block, mean, 1.0f);
  }
  if (rule->options.static_scale) {
    QuantizeStatic(block, *rule, static_clips_.Of(*rule, block));
  } else if (Surveyed(rule->granularity.kind)) {
    QuantizeWith(block, *rule, std::bit_cast<float>(Absmax(block, *rule).load(std::memory_order_relaxed)));
  } else if (RowByRow(rule->granularity.kind)) {
    QuantizeRows(block, *rule);
  } else {
    QuantizeColumns(block, *rule);
  }
  if (rule->options.smooth) Shift(block, mean, -1.0f);
  if (block.site == Site::kProbs) Normalise(block);
}

}  // namespace tare
