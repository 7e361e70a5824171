// SPDX-License-Identifier: Apache-2.0
// The parsers of --sites and --formats, the rounding of blocks and rows, and WideScales, for scales that span rows.
#include "experiments/observe/statistics_job.h"

#include <algorithm>
#include <cmath>
#include <ranges>

#include "experiments/observe/statistics_report.h"
#include "experiments/plan/resolved_plan.h"
#include "kernels/elementwise/rows.h"
#include "quant/algorithms/round_to_nearest.h"
#include "quant/base/message.h"
#include "quant/format/round.h"

namespace tare {
namespace {

// An f32 rule is only a selector, so the grammar of plans serves here.
Rule ParseItem(std::string_view item) {
  if (item.find('=') != item.npos)
    FailUsage("--sites '{}': got '=', expected a site, with or without a selector", item);
  try {
    const Plan plan = Plan::Parse(std::string(item) + "=f32");
    if (plan.rules().size() == 1) return plan.rules().front();
  } catch (const Error& error) {
    FailUsage("--sites '{}': {}", item, error.what());
  }
  FailUsage("--sites '{}': got nothing, expected a site, for example attn_logits[l0-3]", item);
}

using Kind = Granularity::Kind;

// Whether codes have both signs and the largest value sets their scale. Ternary codes are for weights only.
bool IsTaken(const Format& format) {
  const FormatInfo& info = Info(format);
  return HasCodes(format) && info.statistic == Statistic::kLargest && !(IsInteger(format) && info.min_code == 0);
}

std::string NearestTaken(std::string_view name) {
  const auto named = [](const Format& format) { return Name(format); };
  return NearestText(name, SpelledFormats() | std::views::filter(IsTaken) | std::views::transform(named) |
                               std::ranges::to<std::vector>());
}

MeasuredFormat ParseOne(std::string_view text) {
  const size_t slash = text.find('/');
  const std::optional<Format> format = ParseFormat(text.substr(0, slash));
  if (format && Info(*format).block > 0) {
    if (slash != text.npos)
      FailUsage("--formats '{}': got a granularity, but {} has blocks of {}", text, Name(*format), Info(*format).block);
    return {*format, {.kind = Kind::kBlock, .n = Info(*format).block}, std::string(text)};
  }
  const std::optional<Granularity> granularity =
      slash == text.npos ? std::nullopt : ParseGranularity(text.substr(slash + 1));
  if (!format || !IsTaken(*format))
    FailUsage(
        "--formats '{}': got '{}', expected int8, int6, int4, int3 or int2 (probs take u8, u6, u4), fp8e4m3, fp8e5m2, "
        "nf4, nvfp4 or one of MX, as mxfp4{}",
        text, text.substr(0, slash), NearestTaken(text.substr(0, slash)));
  if (!granularity || granularity->kind == Kind::kBlockChannel || granularity->kind == Kind::kHeads ||
      ScalesOfTokens(granularity->kind) > 0)
    FailUsage("--formats '{}': expected one scale per tensor, head, channel, row, token, group<N> or block<N>", text);
  return {*format, *granularity, Formatted("{}/{}", Name(*format), Name(*granularity))};
}

}  // namespace

SiteSelection SiteSelection::Parse(std::string_view text, const ModelSites& model) {
  SiteSelection selection;
  if (text.empty()) {
    selection.canonical_ = "all";
    for (const SiteInfo& info : kSites) {
      if (model.Has(info.site) && !IsCache(info.site)) selection.rules_.push_back(RuleFor(info.site));
    }
    return selection;
  }
  for (const std::string_view item : SplitRules(text)) {
    const Rule rule = ParseItem(item);
    const std::string name = PlaceText(rule);
    for (const Site site : rule.sites) {
      if (IsCache(site))
        FailUsage("--sites '{}': got {}, expected a site that forward passes show, such as q, k or v", name,
                  Name(site));
      // `weights` and `linear_in` are of those there are, as are the sites that nobody asked for
      if (!model.Has(site) && (rule.sites.size() > 1 || text == kOutlierSites)) continue;
      if (!model.Has(site))
        FailUsage("--sites '{}': got {}, expected a site of {} model", name, Name(site), WithArticle(model.family));
      CheckSelector(rule, site, model, Formatted("--sites '{}'", name));
      if (!rule.selector.experts.empty())
        FailUsage("--sites '{}': got some experts, expected all, whose weights are measured together; try {}", name,
                  Name(site));
    }
    selection.canonical_ += (selection.canonical_.empty() ? "" : ",") + name;
    selection.rules_.push_back(rule);
  }
  return selection;
}

bool SiteSelection::Wants(Site site, std::optional<int> layer) const {
  return std::ranges::any_of(rules_, [&](const Rule& rule) {
    return std::ranges::find(rule.sites, site) != rule.sites.end() && Selects(rule.selector.layers, layer);
  });
}

bool SiteSelection::Admits(const SiteKey& key) const {
  return std::ranges::any_of(rules_, [&](const Rule& rule) { return rule.Matches(key); });
}

bool MeasuredFormat::SpansRows(Site site) const {
  const Kind kind = granularity.kind;
  if (NeedsTensor(format.scale)) return site != Site::kProbs && site != Site::kDifference;
  return kind == Kind::kTensor || kind == Kind::kHead || (kind == Kind::kChannel && !IsWeight(site));
}

std::vector<MeasuredFormat> ParseMeasuredFormats(std::string_view text) {
  if (text.ends_with(',')) FailUsage("--formats '{}': got nothing after the last comma, expected a format", text);
  std::vector<MeasuredFormat> formats;
  for (const auto part : std::views::split(text, ',')) {
    MeasuredFormat format = ParseOne(std::string_view(part));
    if (std::ranges::find(formats, format.name, &MeasuredFormat::name) != formats.end())
      FailUsage("--formats: got {} twice, expected each once", format.name);
    formats.push_back(std::move(format));
  }
  return formats;
}

std::vector<std::string> NamesOf(std::span<const MeasuredFormat> formats) {
  return formats | std::views::transform(&MeasuredFormat::name) | std::ranges::to<std::vector>();
}

std::vector<MeasuredFormat> FormatsOf(Site site, std::span<const MeasuredFormat> formats) {
  std::vector<MeasuredFormat> measured;
  for (const MeasuredFormat& format : formats) {
    if (!IsMeasured(site, format.name)) continue;
    measured.push_back(format);
    if (const int n = Info(format.format).block; n > 0) measured.back().granularity = ClassOf(site).InnerBlock(n);
  }
  return measured;
}

void QuantizeBlock(const MeasuredFormat& format, const WideClips& clips, const SiteBlock& block) {
  const Format codes = IsInteger(format.format) ? *ClassOf(block.site).OfBits(Info(format.format).bits) : format.format;
  const Kind kind = format.granularity.kind;
  const bool spans = format.SpansRows(block.site), has_blocks = Info(codes).block > 0;
  const float whole = kind == Kind::kHead ? clips.head : clips.tensor;
  const Granularity of_row{.kind = Kind::kRow, .n = 0};  // a weight's output channel
  ForEachGroup(block, kind == Kind::kChannel ? of_row : format.granularity, [&](const ScaleGroup& group) {
    const std::span<float> values = group.values;
    const float of_tensor = spans ? whole : 1.0f,
                of_block = spans && !has_blocks ? whole : AbsMax(values.data(), values.size());
    const float clip = BlockEnd(values.data(), std::ssize(values), codes, of_block, of_tensor);
    FakeQuantize(values.data(), values.size(), ScaleFor(clip, codes, of_tensor), codes);
  });
}

void QuantizeRow(const MeasuredFormat& format, Site site, const WideClips& clips, std::span<const float> row,
                 std::span<float> quantized) {
  TARE_CHECK(row.size() == quantized.size());
  std::ranges::copy(row, quantized.begin());
  if (format.granularity.kind == Kind::kChannel && format.SpansRows(site)) {
    const Format codes = IsInteger(format.format) ? *ClassOf(site).OfBits(Info(format.format).bits) : format.format;
    TARE_CHECK(clips.channels.size() == row.size());
    for (size_t i = 0; i < row.size(); ++i) FakeQuantize(&quantized[i], 1, ScaleFor(clips.channels[i], codes), codes);
    return;
  }
  const auto columns = static_cast<int64_t>(row.size());
  QuantizeBlock(format, clips,
                {.site = site, .rows = 1, .first_columns = columns, .values = quantized.data(), .stride = columns});
}

WideScales::WideScales(const SiteSelection& selection, std::span<const MeasuredFormat> formats)
    : selection_(selection) {
  for (const SiteInfo& info : kSites) {
    const std::vector<MeasuredFormat> measured = FormatsOf(info.site, formats);
    const auto spans = [&](const MeasuredFormat& format) { return format.SpansRows(info.site); };
    const auto by_channel = [&](const MeasuredFormat& format) {
      return format.granularity.kind == Kind::kChannel && spans(format);
    };
    spans_.push_back(std::ranges::any_of(measured, spans));
    by_channel_.push_back(std::ranges::any_of(measured, by_channel));
  }
}

bool WideScales::Any() const { return std::ranges::find(spans_, true) != spans_.end(); }

bool WideScales::Wants(Site site, std::optional<int> layer) const {
  return spans_[static_cast<size_t>(site)] && selection_.Wants(site, layer);
}

bool WideScales::Admits(const SiteBlock& block) const {
  return spans_[static_cast<size_t>(block.site)] && selection_.Admits(block.key());
}

void WideScales::BeginBatch(int64_t) {
  maxima_.Clear();
  channels_.Clear();
}

void WideScales::Visit(const SiteBlock& block, int) {
  if (!Admits(block)) return;
  float largest = 0.0f;
  std::vector<float> channels;
  if (by_channel_[static_cast<size_t>(block.site)]) channels.resize(static_cast<size_t>(block.first_columns));
  for (int64_t r = 0; r < block.rows; ++r) {
    const std::span<const float> row = block.Row(r);
    const float absmax = AbsMax(row.data(), row.size());
    if (!std::isfinite(absmax)) continue;
    largest = std::max(largest, absmax);
    for (size_t i = 0; i < channels.size(); ++i) channels[i] = std::max(channels[i], std::fabs(row[i]));
  }
  for (const Kind kind : {Kind::kTensor, Kind::kHead}) maxima_.Add(PlaceOf(block, kind), {largest});
  if (!channels.empty()) channels_.Add(PlaceOf(block, Kind::kChannel), channels);
}

WideClips WideScales::Find(const SiteBlock& block) const {
  if (!Admits(block)) return {};
  WideClips clips{.tensor = maxima_.At(PlaceOf(block, Kind::kTensor)).front(),
                  .head = maxima_.At(PlaceOf(block, Kind::kHead)).front()};
  if (by_channel_[static_cast<size_t>(block.site)]) clips.channels = channels_.At(PlaceOf(block, Kind::kChannel));
  return clips;
}

}  // namespace tare
