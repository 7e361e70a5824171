// SPDX-License-Identifier: Apache-2.0
// See page_layout.h.
#include "kernels/cache/page_layout.h"

#include <algorithm>

#include "kernels/attention/heads.h"
#include "quant/base/error.h"

namespace tare {
namespace {

PageScales ScalesOf(const CacheRule& rule, int64_t channels) {
  return {rule.format, rule.ByChannel() ? channels : kPageTokens};
}

// Values of one scale as they are kept.
const float* Kept(const CacheRule& rule, const PageScales& of, const float* values, int n, std::byte* scales, int index,
                  float* codes) {
  if (!HasCodes(rule.format)) return values;
  of.Round(values, n, scales, index, codes);
  return codes;
}

// A token's row back from what is kept.
void Dequantize(const CacheRule& rule, const PageScales& of, const std::byte* scales, int token, int n, float* values) {
  if (!HasCodes(rule.format)) return;
  rule.ByChannel() ? of.DequantizeEach(scales, n, values) : of.Dequantize(scales, token, n, values);
}

}  // namespace

PageLayout::PageLayout(const CacheShape& shape, const CacheRule& k, const CacheRule& v)
    : shape_(shape),
      k_(k),
      v_(v),
      k_scales_(ScalesOf(k, KeyInputs())),
      v_scales_(ScalesOf(v, int64_t{ValuePanels()} * kPanelLanes)),
      key_bytes_(PanelBytes(k.format, KeyInputs()) + k_scales_.Bytes()),
      value_bytes_(ValuePanels() * PanelBytes(v.format, kPageTokens) + v_scales_.Bytes()) {}

void PageLayout::WriteKey(std::byte* k, int token, int head, const float* key) const {
  TARE_CHECK(!k_.ByChannel());
  float codes[kLargestWidth];
  const float* kept = Kept(k_, k_scales_, key, shape_.k_width, k + KeyScales(head), token, codes);
  WritePanel(k_.format, k + Key(head), {0, token, 1, 0}, kept, shape_.k_width);
}

void PageLayout::WriteValue(std::byte* v, int token, int head, const float* value) const {
  TARE_CHECK(!v_.ByChannel());
  float codes[kLargestWidth];
  WriteValueRow(v, token, head, Kept(v_, v_scales_, value, shape_.v_width, v + ValueScales(head), token, codes));
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
  k_scales_.Round(column, kPageTokens, k + KeyScales(head), channel, codes);
  WritePanel(k_.format, k + Key(head), {channel, 0, 0, 1}, codes, kPageTokens);
}

void PageLayout::WriteValueChannel(std::byte* v, int channel, int head, const float* column) const {
  float codes[kPageTokens];
  v_scales_.Round(column, kPageTokens, v + ValueScales(head), channel, codes);
  WritePanel(v_.format, v + ValuePanel(head, channel), {0, channel % kPanelLanes, 1, 0}, codes, kPageTokens);
}

void PageLayout::WriteKeysOfHead(std::byte* k, int head, const PageLayout& plain, const std::byte* from) const {
  float values[kLargestWidth];  // of a token or a channel
  for (int t = 0; t < kPageTokens && !k_.ByChannel(); ++t) {
    plain.ReadKey(from, t, head, values);
    WriteKey(k, t, head, values);
  }
  for (int c = 0; c < shape_.k_width && k_.ByChannel(); ++c) {
    for (int t = 0; t < kPageTokens; ++t) values[t] = ReadInput(Format::kF32, from + plain.Key(head), c, t);
    WriteKeyChannel(k, c, head, values);
  }
}

void PageLayout::WriteValuesOfHead(std::byte* v, int head, const PageLayout& plain, const std::byte* from) const {
  float values[kLargestWidth];
  for (int t = 0; t < kPageTokens && !v_.ByChannel(); ++t) {
    plain.ReadValue(from, t, head, values);
    WriteValue(v, t, head, values);
  }
  for (int c = 0; c < shape_.v_width && v_.ByChannel(); ++c) {
    const std::byte* panel = from + plain.ValuePanel(head, c);
    for (int t = 0; t < kPageTokens; ++t) values[t] = ReadInput(Format::kF32, panel, t, c % kPanelLanes);
    WriteValueChannel(v, c, head, values);
  }
}

void PageLayout::WriteKeys(std::byte* k, const PageLayout& plain, const std::byte* from) const {
  for (int h = 0; h < shape_.k_heads; ++h) WriteKeysOfHead(k, h, plain, from);
}

void PageLayout::WriteValues(std::byte* v, const PageLayout& plain, const std::byte* from) const {
  for (int h = 0; h < shape_.v_heads; ++h) WriteValuesOfHead(v, h, plain, from);
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
  if (HasCodes(v_.format)) v_scales_.Copy(v + ValueScales(head), token, from + ValueScales(head), from_token);
}

void PageLayout::ReadKey(const std::byte* k, int token, int head, float* key) const {
  ReadPanel(k_.format, k + Key(head), {0, token, 1, 0}, shape_.k_width, key);
  Dequantize(k_, k_scales_, k + KeyScales(head), token, shape_.k_width, key);
}

void PageLayout::ReadValue(const std::byte* v, int token, int head, float* value) const {
  ReadValueRow(v, token, head, value);
  Dequantize(v_, v_scales_, v + ValueScales(head), token, shape_.v_width, value);
}

}  // namespace tare
