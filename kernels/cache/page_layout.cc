// SPDX-License-Identifier: Apache-2.0
#include "kernels/cache/page_layout.h"

#include <algorithm>

#include "quant/base/integers.h"
#include "quant/base/message.h"

namespace tare {
namespace {

using Kind = Granularity::Kind;

// Runs end where panels do, and have whole vectors of every instruction set.
bool MayShare(const Format& format, Granularity granularity, Kind in_runs) {
  const int n = granularity.n;
  if (const int block = Info(format).block; block > 0) return granularity == Granularity{Kind::kGroup, block};
  if (granularity.kind == in_runs) return n == kPanelLanes / 2 || n == kPanelLanes;
  return granularity.kind == Kind::kTensor || granularity.kind == Kind::kToken || granularity.kind == Kind::kChannel;
}

}  // namespace

bool MayShareKeyScale(const Format& format, Granularity granularity) {
  return MayShare(format, granularity, Kind::kBlockChannel);
}
bool MayShareValueScale(const Format& format, Granularity granularity) {
  return MayShare(format, granularity, Kind::kGroup);
}

void CheckShape(const CacheShape& s) {
  CheckRange("cache", "heads of k", s.k_heads, 1, kMostHeads);
  CheckRange("cache", "heads of v", s.v_heads, 1, kMostHeads);
  CheckRange("cache, k", "width", s.k_width, 1, kLargestWidth);
  CheckRange("cache, v", "width", s.v_width, 1, kLargestWidth);
}

void CheckRules(const CacheRule& k, const CacheRule& v) {
  for (const CacheRule& rule : {k, v}) {
    CheckRange("cache", "format", static_cast<int64_t>(rule.format.base), 0, std::ssize(kFormats) - 1);
    if (!IsCached(rule.format))
      Fail(
          "cache: got {}, expected f32, bf16, int8 to int2, fp8e4m3, fp8e5m2, mxfp4, mxfp8e4m3, mxfp8e5m2, nvfp4, "
          "nvint4 or a list of at most 16 values",
          Name(rule.format));
    const bool of_tensor = HasCodes(rule.format) && rule.granularity.kind == Kind::kTensor;
    const float clip = rule.clip.value_or(0);
    if (of_tensor != rule.clip.has_value() || (of_tensor && HasOffset(rule.format)) || !(clip >= 0 && clip <= 0x1p120f))
      Fail(
          "cache: got {} per {} clipped at {}, expected a clip of 0 to 2^120 per tensor, without minima, and none else",
          Name(rule.format), Name(rule.granularity), clip);
  }
  const auto check = [](const char* name, const CacheRule& rule, bool may_share, const std::string& expected) {
    const int block = Info(rule.format).block;
    if (HasCodes(rule.format) && !may_share)
      Fail("cache, {}: got a scale per {}, expected {}", name, Name(rule.granularity),
           block > 0 ? Formatted("group{}, the blocks of {}", block, Name(rule.format)) : expected);
  };
  check("k", k, MayShareKeyScale(k.format, k.granularity), kKeyGranularities);
  check("v", v, MayShareValueScale(v.format, v.granularity), kValueGranularities);
}

PageSide::PageSide(Lanes lanes, int heads, int width, const CacheRule& rule)
    : lanes_(lanes),
      heads_(heads),
      width_(width),
      rule_(rule),
      scales_first_(lanes == Lanes::kChannels || rule.ByChannel()),
      in_blocks_(rule.InBlocks()),
      groups_(rule.InRuns() ? CeilDiv(rule.ByChannel() ? kPageTokens : width, rule.granularity.n) : 1),
      of_run_(rule.InRuns() && !in_blocks_ ? rule.granularity.n : 0),
      scales_(rule.format, rule.clip ? 0 : groups_ * (rule.ByChannel() ? Channels() : kPageTokens),
              in_blocks_      ? HeldScales::kByte
              : rule.InRuns() ? HeldScales::kF16
                              : HeldScales::kF32,
              rule.clip),
      panel_bytes_(tare::PanelBytes(rule.format, Inputs())),
      scale_bytes_(scales_.Bytes()),
      head_bytes_(Panels() * panel_bytes_ + scale_bytes_) {}

int64_t PageSide::PanelOf(int head, int channel) const {
  return Panel(head) + (lanes_ == Lanes::kTokens ? 0 : channel / kPanelLanes * panel_bytes_);
}

PanelRun PageSide::RowOf(int token, int channel) const {
  return lanes_ == Lanes::kTokens ? PanelRun{channel, token, 1, 0} : PanelRun{token, channel % kPanelLanes, 0, 1};
}

PanelRun PageSide::ColumnOf(int channel) const {
  return lanes_ == Lanes::kTokens ? PanelRun{channel, 0, 0, 1} : PanelRun{0, channel % kPanelLanes, 1, 0};
}

template <typename Body>
void PageSide::ForGroups(int token, const Body& body) const {
  const int width = rule_.InRuns() ? rule_.granularity.n : width_;
  for (int group = 0; group < Groups(); ++group)
    body(group * width, std::min(width, width_ - group * width), int64_t{group} * kPageTokens + token);
}

void PageSide::WriteKept(std::byte* page, int token, int head, const float* kept) const {
  for (int c = 0; c < width_; c += InPanel())
    WritePanel(rule_.format, page + PanelOf(head, c), RowOf(token, c), kept + c, std::min(InPanel(), width_ - c));
}

void PageSide::ReadKept(const std::byte* page, int token, int head, float* kept) const {
  for (int c = 0; c < width_; c += InPanel())
    ReadPanel(rule_.format, page + PanelOf(head, c), RowOf(token, c), std::min(InPanel(), width_ - c), kept + c);
}

void PageSide::Write(std::byte* page, int token, int head, const float* row) const {
  TARE_CHECK(!rule_.ByChannel());
  if (!HasCodes(rule_.format)) return WriteKept(page, token, head, row);
  float codes[kLargestWidth];
  ForGroups(token, [&](int first, int channels, int64_t scale) {
    scales_.Round(row + first, channels, page + Scales(head), scale, codes + first);
  });
  WriteKept(page, token, head, codes);
}

void PageSide::WriteColumn(std::byte* page, int channel, int head, const float* column) const {
  float codes[kPageTokens];
  const int tokens = kPageTokens / Runs();
  for (int run = 0; run < Runs(); ++run)
    scales_.Round(column + run * tokens, tokens, page + Scales(head), run * Channels() + channel, codes + run * tokens);
  WritePanel(rule_.format, page + PanelOf(head, channel), ColumnOf(channel), codes, kPageTokens);
}

void PageSide::WriteRows(std::byte* page, const PageSide& source, const std::byte* from, KeyRange tokens) const {
  float row[kLargestWidth];
  for (int head = 0; head < heads_; ++head) {
    for (auto token = static_cast<int>(tokens.begin); token < tokens.end; ++token) {
      source.Read(from, token, head, row);
      Write(page, token, head, row);
    }
  }
}

void PageSide::WriteAll(std::byte* page, const PageSide& plain, const std::byte* from) const {
  if (!rule_.ByChannel()) return WriteRows(page, plain, from, {0, kPageTokens});
  float column[kPageTokens];
  for (int head = 0; head < heads_; ++head) {
    for (int c = 0; c < width_; ++c) {
      ReadPanel(Format::kF32, from + plain.PanelOf(head, c), plain.ColumnOf(c), kPageTokens, column);
      WriteColumn(page, c, head, column);
    }
  }
}

void PageSide::Copy(std::byte* page, int token, const std::byte* from, int from_token, int head) const {
  TARE_CHECK(!rule_.ByChannel());
  float codes[kLargestWidth];
  ReadKept(from, from_token, head, codes);
  WriteKept(page, token, head, codes);
  if (!HasCodes(rule_.format)) return;
  ForGroups(from_token, [&](int, int, int64_t scale) {
    scales_.Copy(page + Scales(head), scale - from_token + token, from + Scales(head), scale);
  });
}

void PageSide::Read(const std::byte* page, int token, int head, float* row) const {
  ReadKept(page, token, head, row);
  if (!HasCodes(rule_.format)) return;
  const std::byte* const scales = page + Scales(head);
  if (rule_.ByChannel())
    return scales_.DequantizeEach(scales, token / (kPageTokens / Runs()) * Channels(), width_, row);
  ForGroups(token,
            [&](int first, int channels, int64_t scale) { scales_.Dequantize(scales, scale, channels, row + first); });
}

}  // namespace tare
