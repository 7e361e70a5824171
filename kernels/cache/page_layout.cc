// SPDX-License-Identifier: Apache-2.0
#include "kernels/cache/page_layout.h"

#include <algorithm>

#include "kernels/attention/heads.h"
#include "quant/base/message.h"

namespace tare {
namespace {

using Kind = Granularity::Kind;

// groups: the number of groups of a token's channels.
PageScales ScalesOf(const CacheRule& rule, int64_t channels, int64_t groups) {
  if (rule.clip) return {rule.format, 0, HeldScales::kF32, rule.clip};
  if (!rule.InRuns()) return {rule.format, rule.ByChannel() ? channels : kPageTokens};
  const int64_t count = rule.ByChannel() ? kPageTokens / rule.granularity.n * channels : groups * kPageTokens;
  return {rule.format, count, HeldScales::kF16};
}

// The lanes of a run, where each run has n.
LaneRun RunOf(int run, int n) {
  const int first = run * n;
  return {.panel = first / kPanelLanes, .begin = first % kPanelLanes, .end = first % kPanelLanes + n};
}

// Runs end where panels do, and have whole vectors of every instruction set.
bool MayShare(Granularity granularity, Kind in_runs) {
  const int n = granularity.n;
  if (granularity.kind == in_runs) return n == kPanelLanes / 2 || n == kPanelLanes;
  return granularity.kind == Kind::kTensor || granularity.kind == Kind::kToken || granularity.kind == Kind::kChannel;
}

}  // namespace

bool MayShareKeyScale(Granularity granularity) { return MayShare(granularity, Kind::kBlockChannel); }
bool MayShareValueScale(Granularity granularity) { return MayShare(granularity, Kind::kGroup); }

void CheckShape(const CacheShape& s) {
  if (s.k_heads < 1 || s.k_width < 1 || s.v_heads < 1 || s.v_width < 1)
    Fail("cache: got {} heads of k, {} wide, and {} of v, {} wide, expected at least 1 of each", s.k_heads, s.k_width,
         s.v_heads, s.v_width);
  if (std::max(s.k_heads, s.v_heads) > kMostHeads)
    Fail("cache: got {} heads, expected at most {}", std::max(s.k_heads, s.v_heads), kMostHeads);
  if (std::max(s.k_width, s.v_width) > kLargestWidth)
    Fail("cache: got heads of width {}, expected at most {}", std::max(s.k_width, s.v_width), kLargestWidth);
}

void CheckRules(const CacheRule& k, const CacheRule& v) {
  for (const CacheRule& rule : {k, v}) {
    CheckRange("cache", "format", static_cast<int64_t>(rule.format.base), 0, std::ssize(kFormats) - 1);
    if (!IsCached(rule.format))
      Fail("cache: got {}, expected f32, bf16, int8 to int2, fp8e4m3, fp8e5m2 or a list of at most 16 values",
           Name(rule.format));
    const bool of_tensor = HasCodes(rule.format) && rule.granularity.kind == Kind::kTensor;
    const float clip = rule.clip.value_or(0);
    if (of_tensor != rule.clip.has_value() || (of_tensor && HasOffset(rule.format)) || !(clip >= 0 && clip <= 0x1p120f))
      Fail(
          "cache: got {} per {} clipped at {}, expected a clip of 0 to 2^120 per tensor, without minima, and none else",
          Name(rule.format), Name(rule.granularity), clip);
  }
  if (HasCodes(k.format) && !MayShareKeyScale(k.granularity))
    Fail("cache, k: got a scale per {}, expected {}", Name(k.granularity), kKeyGranularities);
  if (HasCodes(v.format) && !MayShareValueScale(v.granularity))
    Fail("cache, v: got a scale per {}, expected {}", Name(v.granularity), kValueGranularities);
}

PageLayout::PageLayout(const CacheShape& shape, const CacheRule& k, const CacheRule& v)
    : shape_((CheckShape(shape), shape)),
      k_(k),
      v_(v),
      k_scales_(ScalesOf(k, KeyInputs(), 1)),
      v_scales_(ScalesOf(v, int64_t{ValuePanels()} * kPanelLanes, ValueRuns())),
      key_bytes_(PanelBytes(k.format, KeyInputs()) + k_scales_.Bytes()),
      value_bytes_(ValuePanels() * PanelBytes(v.format, kPageTokens) + v_scales_.Bytes()) {}

LaneRun PageLayout::KeyRun(int run) const { return k_.InRuns() ? RunOf(run, k_.granularity.n) : LaneRun{}; }

LaneRun PageLayout::ValueRun(int run) const {
  return v_.InRuns() ? RunOf(run, v_.granularity.n) : LaneRun{.panels = ValuePanels()};
}

template <typename Body>
void PageLayout::ForGroups(int token, const Body& body) const {
  const int width = v_.InRuns() ? v_.granularity.n : shape_.v_width;
  for (int run = 0; run < ValueRuns(); ++run)
    body(run * width, std::min(width, shape_.v_width - run * width), int64_t{run} * kPageTokens + token);
}

void PageLayout::WriteKey(std::byte* k, int token, int head, const float* key) const {
  TARE_CHECK(!k_.ByChannel());
  float codes[kLargestWidth];
  if (HasCodes(k_.format)) {
    k_scales_.Round(key, shape_.k_width, k + KeyScales(head), token, codes);
    key = codes;
  }
  WritePanel(k_.format, k + Key(head), {0, token, 1, 0}, key, shape_.k_width);
}

void PageLayout::WriteValue(std::byte* v, int token, int head, const float* value) const {
  TARE_CHECK(!v_.ByChannel());
  if (!HasCodes(v_.format)) return WriteValueRow(v, token, head, value);
  float codes[kLargestWidth];
  ForGroups(token, [&](int first, int channels, int64_t scale) {
    v_scales_.Round(value + first, channels, v + ValueScales(head), scale, codes + first);
  });
  WriteValueRow(v, token, head, codes);
}

void PageLayout::WriteValueRow(std::byte* v, int token, int head, const float* kept) const {
  for (int first = 0; first < shape_.v_width; first += kPanelLanes) {
    const int channels = std::min(kPanelLanes, shape_.v_width - first);
    WritePanel(v_.format, v + ValuePanel(head, first), {token, 0, 0, 1}, kept + first, channels);
  }
}

void PageLayout::ReadValueRow(const std::byte* v, int token, int head, float* kept) const {
  for (int first = 0; first < shape_.v_width; first += kPanelLanes) {
    const int channels = std::min(kPanelLanes, shape_.v_width - first);
    ReadPanel(v_.format, v + ValuePanel(head, first), {token, 0, 0, 1}, channels, kept + first);
  }
}

void PageLayout::WriteKeyChannel(std::byte* k, int channel, int head, const float* column) const {
  float codes[kPageTokens];
  const int tokens = kPageTokens / KeyRuns();
  for (int run = 0; run < KeyRuns(); ++run) {
    const int64_t scale = int64_t{run} * KeyInputs() + channel;
    k_scales_.Round(column + run * tokens, tokens, k + KeyScales(head), scale, codes + run * tokens);
  }
  WritePanel(k_.format, k + Key(head), {channel, 0, 0, 1}, codes, kPageTokens);
}

void PageLayout::WriteValueChannel(std::byte* v, int channel, int head, const float* column) const {
  float codes[kPageTokens];
  v_scales_.Round(column, kPageTokens, v + ValueScales(head), channel, codes);
  WritePanel(v_.format, v + ValuePanel(head, channel), {0, channel % kPanelLanes, 1, 0}, codes, kPageTokens);
}

void PageLayout::WriteKeys(std::byte* k, const PageLayout& plain, const std::byte* from) const {
  float values[kLargestWidth];  // of a token or a channel
  for (int head = 0; head < shape_.k_heads; ++head) {
    for (int t = 0; t < kPageTokens && !k_.ByChannel(); ++t) {
      plain.ReadKey(from, t, head, values);
      WriteKey(k, t, head, values);
    }
    for (int c = 0; c < shape_.k_width && k_.ByChannel(); ++c) {
      ReadPanel(Format::kF32, from + plain.Key(head), {c, 0, 0, 1}, kPageTokens, values);
      WriteKeyChannel(k, c, head, values);
    }
  }
}

void PageLayout::WriteValues(std::byte* v, const PageLayout& plain, const std::byte* from) const {
  float values[kLargestWidth];
  for (int head = 0; head < shape_.v_heads; ++head) {
    for (int t = 0; t < kPageTokens && !v_.ByChannel(); ++t) {
      plain.ReadValue(from, t, head, values);
      WriteValue(v, t, head, values);
    }
    for (int c = 0; c < shape_.v_width && v_.ByChannel(); ++c) {
      ReadPanel(Format::kF32, from + plain.ValuePanel(head, c), {0, c % kPanelLanes, 1, 0}, kPageTokens, values);
      WriteValueChannel(v, c, head, values);
    }
  }
}

void PageLayout::CopyKey(std::byte* k, int token, const std::byte* from, int from_token, int head) const {
  TARE_CHECK(!k_.ByChannel());
  float codes[kLargestWidth];
  ReadPanel(k_.format, from + Key(head), {0, from_token, 1, 0}, shape_.k_width, codes);
  WritePanel(k_.format, k + Key(head), {0, token, 1, 0}, codes, shape_.k_width);
  if (HasCodes(k_.format)) k_scales_.Copy(k + KeyScales(head), token, from + KeyScales(head), from_token);
}

void PageLayout::CopyValue(std::byte* v, int token, const std::byte* from, int from_token, int head) const {
  TARE_CHECK(!v_.ByChannel());
  float codes[kLargestWidth];
  ReadValueRow(from, from_token, head, codes);
  WriteValueRow(v, token, head, codes);
  if (!HasCodes(v_.format)) return;
  ForGroups(from_token, [&](int, int, int64_t scale) {
    v_scales_.Copy(v + ValueScales(head), scale - from_token + token, from + ValueScales(head), scale);
  });
}

void PageLayout::ReadKey(const std::byte* k, int token, int head, float* key) const {
  ReadPanel(k_.format, k + Key(head), {0, token, 1, 0}, shape_.k_width, key);
  if (!HasCodes(k_.format)) return;
  const std::byte* const scales = k + KeyScales(head);
  if (!k_.ByChannel()) return k_scales_.Dequantize(scales, token, shape_.k_width, key);
  const int64_t run = token / (kPageTokens / KeyRuns());
  k_scales_.DequantizeEach(scales, run * KeyInputs(), shape_.k_width, key);
}

void PageLayout::ReadValue(const std::byte* v, int token, int head, float* value) const {
  ReadValueRow(v, token, head, value);
  if (!HasCodes(v_.format)) return;
  const std::byte* const scales = v + ValueScales(head);
  if (v_.ByChannel()) return v_scales_.DequantizeEach(scales, 0, shape_.v_width, value);
  ForGroups(token, [&](int first, int channels, int64_t scale) {
    v_scales_.Dequantize(scales, scale, channels, value + first);
  });
}

}  // namespace tare
