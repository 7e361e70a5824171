// SPDX-License-Identifier: Apache-2.0
// See page_layout.h.
#include "kernels/cache/page_layout.h"

#include <algorithm>
#include <cstring>

#include "kernels/attention/heads.h"
#include "kernels/elementwise/rows.h"
#include "kernels/elementwise/to_nearest.h"
#include "quant/base/error.h"
#include "quant/base/float16.h"
#include "quant/format/round.h"

namespace tare {
namespace {

constexpr int kRecord = 256;

int64_t ScaleBytes(const CacheRule& rule, int channels) {
  const int64_t scales = rule.ByChannel() ? channels : HasCodes(rule.format) ? kPageTokens : 0;
  return scales * static_cast<int64_t>(sizeof(float));
}

void SetBits(std::byte& byte, int shift, int mask, int bits) {
  byte = (byte & ~(std::byte(mask) << shift)) | std::byte(bits) << shift;
}

int GetBits(std::byte byte, int shift, int mask) { return std::to_integer<int>(byte >> shift) & mask; }

// Where the low four bits of a code lie: of int4 a record has 8 inputs, of int6 16 in two.
struct Nibble {
  int64_t byte;
  int shift;
};
Nibble NibbleOf(int input, int lane) {
  return {int64_t{input / 8} * kRecord + 4 * lane + input % 4, input % 8 < 4 ? 0 : 4};
}

std::byte* SixBits(std::byte* panel, int input) { return panel + int64_t{input / 16} * 3 * kRecord; }

template <Format kFormat>
void Write(std::byte* panel, int input, int lane, float value) {
  if constexpr (kFormat == Format::kF32) {
    std::memcpy(panel + int64_t{input} * kRecord + 4 * lane, &value, 4);
  } else if constexpr (kFormat == Format::kBf16) {
    const uint16_t bits = Bf16FromFloat(value);
    std::memcpy(panel + int64_t{input / 2} * kRecord + 4 * lane + input % 2 * 2, &bits, 2);
  } else if constexpr (kFormat == Format::kInt8) {
    panel[int64_t{input / 4} * kRecord + 4 * lane + input % 4] = std::byte(static_cast<int8_t>(value));
  } else if constexpr (kFormat == Format::kInt4) {
    const Nibble at = NibbleOf(input, lane);
    SetBits(panel[at.byte], at.shift, 15, static_cast<int>(value) + 8);
  } else {
    const int u = static_cast<int>(value) + 32, r = input % 16;
    std::byte* record = SixBits(panel, input);
    const Nibble at = NibbleOf(r, lane);
    SetBits(record[at.byte], at.shift, 15, u & 15);
    SetBits(record[2 * kRecord + 4 * lane + r % 4], r / 4 * 2, 3, u >> 4);
  }
}

template <Format kFormat>
float Read(const std::byte* panel, int input, int lane) {
  const int64_t at = int64_t{4} * lane;
  if constexpr (kFormat == Format::kF32) {
    float value;
    std::memcpy(&value, panel + int64_t{input} * kRecord + at, 4);
    return value;
  } else if constexpr (kFormat == Format::kBf16) {
    uint16_t bits;
    std::memcpy(&bits, panel + int64_t{input / 2} * kRecord + at + input % 2 * 2, 2);
    return FloatFromBf16(bits);
  } else if constexpr (kFormat == Format::kInt8) {
    return static_cast<float>(std::to_integer<int8_t>(panel[int64_t{input / 4} * kRecord + at + input % 4]));
  } else if constexpr (kFormat == Format::kInt4) {
    const Nibble nibble = NibbleOf(input, lane);
    return static_cast<float>(GetBits(panel[nibble.byte], nibble.shift, 15) - 8);
  } else {
    const int r = input % 16;
    const std::byte* record = panel + int64_t{input / 16} * 3 * kRecord;
    const Nibble low = NibbleOf(r, lane);
    const int high = GetBits(record[2 * kRecord + at + r % 4], r / 4 * 2, 3);
    return static_cast<float>((GetBits(record[low.byte], low.shift, 15) | high << 4) - 32);
  }
}

// Where n values lie: consecutive inputs of a lane, or consecutive lanes of an input.
struct Run {
  int input, lane, input_step, lane_step;
};

template <Format kFormat>
void ReadRun(const std::byte* panel, const Run& run, int n, float* values) {
  for (int i = 0; i < n; ++i)
    values[i] = Read<kFormat>(panel, run.input + i * run.input_step, run.lane + i * run.lane_step);
}

void ReadRunOf(Format format, const std::byte* panel, const Run& run, int n, float* values) {
  switch (format) {
    case Format::kF32:
      return ReadRun<Format::kF32>(panel, run, n, values);
    case Format::kBf16:
      return ReadRun<Format::kBf16>(panel, run, n, values);
    case Format::kInt8:
      return ReadRun<Format::kInt8>(panel, run, n, values);
    case Format::kInt6:
      return ReadRun<Format::kInt6>(panel, run, n, values);
    case Format::kInt4:
      return ReadRun<Format::kInt4>(panel, run, n, values);
    default:
      TARE_CHECK(false);
  }
}

template <Format kFormat>
void WriteRun(std::byte* panel, const Run& run, const float* values, int n, Scale scale) {
  for (int i = 0; i < n; ++i) {
    float value = values[i];
    // |value| inv is the largest code and a rounding of it at most: no clamp changes it.
    if constexpr (HasCodes(kFormat)) value = (value * scale.inv + kToNearest) - kToNearest;
    Write<kFormat>(panel, run.input + i * run.input_step, run.lane + i * run.lane_step, value);
  }
}

void WriteRunOf(Format format, std::byte* panel, const Run& run, const float* values, int n, Scale scale) {
  switch (format) {
    case Format::kF32:
      return WriteRun<Format::kF32>(panel, run, values, n, scale);
    case Format::kBf16:
      return WriteRun<Format::kBf16>(panel, run, values, n, scale);
    case Format::kInt8:
      return WriteRun<Format::kInt8>(panel, run, values, n, scale);
    case Format::kInt6:
      return WriteRun<Format::kInt6>(panel, run, values, n, scale);
    case Format::kInt4:
      return WriteRun<Format::kInt4>(panel, run, values, n, scale);
    default:
      TARE_CHECK(false);
  }
}

// The scale of a token's row, or of a channel's column, stored where it belongs.
Scale StoreScale(Format format, const float* values, int n, std::byte* scales, int index) {
  if (!HasCodes(format)) return {1.0f, 1.0f};
  const Scale scale = ScaleFor(AbsMax(values, static_cast<size_t>(n)), format);
  std::memcpy(scales + int64_t{index} * 4, &scale.scale, 4);
  return scale;
}

void CopyScale(std::byte* scales, int token, const std::byte* from, int from_token) {
  std::memcpy(scales + int64_t{token} * 4, from + int64_t{from_token} * 4, 4);
}

// Times the scales of a token's row.
void Scaled(const CacheRule& rule, const std::byte* scales, int token, int n, float* values) {
  if (!HasCodes(rule.format)) return;
  const std::byte* const first = scales + int64_t{rule.ByChannel() ? 0 : token} * 4;
  for (int i = 0; i < n; ++i) {
    float scale;
    std::memcpy(&scale, first + (rule.ByChannel() ? int64_t{i} * 4 : 0), 4);
    values[i] *= scale;
  }
}

}  // namespace

int64_t PanelBytes(Format format, int64_t inputs) { return inputs * kPanelLanes * Info(format).bits / 8; }

float ReadInput(Format format, const std::byte* panel, int input, int lane) {
  float value;
  ReadRunOf(format, panel, {input, lane, 0, 0}, 1, &value);
  return value;
}

PageLayout::PageLayout(const CacheShape& shape, const CacheRule& k, const CacheRule& v)
    : shape_(shape),
      k_(k),
      v_(v),
      key_scale_bytes_(ScaleBytes(k, KeyInputs())),
      value_scale_bytes_(ScaleBytes(v, ValuePanels() * kPanelLanes)),
      key_bytes_(PanelBytes(k.format, KeyInputs()) + key_scale_bytes_),
      value_bytes_(ValuePanels() * PanelBytes(v.format, kPageTokens) + value_scale_bytes_) {}

void PageLayout::WriteKey(std::byte* k, int token, int head, const float* key) const {
  TARE_CHECK(!k_.ByChannel());
  const Scale scale = StoreScale(k_.format, key, shape_.k_width, k + KeyScales(head), token);
  WriteRunOf(k_.format, k + Key(head), {0, token, 1, 0}, key, shape_.k_width, scale);
}

void PageLayout::WriteValue(std::byte* v, int token, int head, const float* value) const {
  TARE_CHECK(!v_.ByChannel());
  const Scale scale = StoreScale(v_.format, value, shape_.v_width, v + ValueScales(head), token);
  for (int first = 0; first < shape_.v_width; first += kPanelLanes) {
    const int channels = std::min(kPanelLanes, shape_.v_width - first);
    WriteRunOf(v_.format, v + ValuePanel(head, first), {token, 0, 0, 1}, value + first, channels, scale);
  }
}

void PageLayout::WriteKeyChannel(std::byte* k, int channel, int head, const float* column) const {
  const Scale scale = StoreScale(k_.format, column, kPageTokens, k + KeyScales(head), channel);
  WriteRunOf(k_.format, k + Key(head), {channel, 0, 0, 1}, column, kPageTokens, scale);
}

void PageLayout::WriteValueChannel(std::byte* v, int channel, int head, const float* column) const {
  const Scale scale = StoreScale(v_.format, column, kPageTokens, v + ValueScales(head), channel);
  WriteRunOf(v_.format, v + ValuePanel(head, channel), {0, channel % kPanelLanes, 1, 0}, column, kPageTokens, scale);
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
  ReadRunOf(k_.format, from + Key(head), {0, from_token, 1, 0}, shape_.k_width, codes);
  WriteRunOf(k_.format, k + Key(head), {0, token, 1, 0}, codes, shape_.k_width, {1.0f, 1.0f});
  if (HasCodes(k_.format)) CopyScale(k + KeyScales(head), token, from + KeyScales(head), from_token);
}

void PageLayout::CopyValue(std::byte* v, int token, const std::byte* from, int from_token, int head) const {
  TARE_CHECK(!v_.ByChannel());
  float codes[kPanelLanes];
  for (int first = 0; first < shape_.v_width; first += kPanelLanes) {
    const int channels = std::min(kPanelLanes, shape_.v_width - first);
    const int64_t panel = ValuePanel(head, first);
    ReadRunOf(v_.format, from + panel, {from_token, 0, 0, 1}, channels, codes);
    WriteRunOf(v_.format, v + panel, {token, 0, 0, 1}, codes, channels, {1.0f, 1.0f});
  }
  if (HasCodes(v_.format)) CopyScale(v + ValueScales(head), token, from + ValueScales(head), from_token);
}

void PageLayout::ReadKey(const std::byte* k, int token, int head, float* key) const {
  ReadRunOf(k_.format, k + Key(head), {0, token, 1, 0}, shape_.k_width, key);
  Scaled(k_, k + KeyScales(head), token, shape_.k_width, key);
}

void PageLayout::ReadValue(const std::byte* v, int token, int head, float* value) const {
  for (int first = 0; first < shape_.v_width; first += kPanelLanes)
    ReadRunOf(v_.format, v + ValuePanel(head, first), {token, 0, 0, 1}, std::min(kPanelLanes, shape_.v_width - first),
              value + first);
  Scaled(v_, v + ValueScales(head), token, shape_.v_width, value);
}

}  // namespace tare
