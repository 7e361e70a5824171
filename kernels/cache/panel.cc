// SPDX-License-Identifier: Apache-2.0
// The layouts of panel.h once more, one value at a time.
#include "kernels/cache/panel.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/elementwise/rows.h"
#include "quant/base/float16.h"
#include "quant/base/integers.h"
#include "quant/base/message.h"
#include "quant/format/pack.h"
#include "quant/format/round.h"

namespace tare {
namespace {

constexpr int kRecord = 256;

void SetBits(std::byte& byte, int shift, int mask, int bits) {
  byte = (byte & ~(std::byte(mask) << shift)) | std::byte(bits) << shift;
}

int GetBits(std::byte byte, int shift, int mask) { return std::to_integer<int>(byte >> shift) & mask; }

struct Place {
  int64_t byte;
  int shift;
};
// The low four bits: of int4, whose record has 8 inputs, and of int6, whose two records have 16.
Place NibbleOf(int input, int lane) {
  return {int64_t{input / 8} * kRecord + 4 * lane + input % 4, input % 8 < 4 ? 0 : 4};
}
// Two bits of a code, one of 16 inputs.
Place PairOf(int r, int lane) { return {int64_t{4} * lane + r % 4, r / 4 * 2}; }
// One bit of a code, one of 16 inputs.
Place BitOf(int r, int lane) { return {int64_t{2} * lane + r % 4 / 2, r % 2 * 4 + r / 4}; }

// Bytes of the codes of 16 inputs.
constexpr int64_t RecordBytes(int bits) { return int64_t{16} * kPanelLanes * bits / 8; }

template <int kBits>
void WriteCode(std::byte* panel, int input, int lane, int u) {
  const int r = input % 16;
  std::byte* const record = panel + input / 16 * RecordBytes(kBits);
  const auto write = [](std::byte* from, Place at, int mask, int bits) {
    SetBits(from[at.byte], at.shift, mask, bits & mask);
  };
  if constexpr (kBits == 8) {
    panel[int64_t{input / 4} * kRecord + 4 * lane + input % 4] = std::byte(u ^ 128);
  } else if constexpr (kBits >= 4) {
    write(record, NibbleOf(r, lane), 15, u);
    if constexpr (kBits == 6) write(record + 2 * kRecord, PairOf(r, lane), 3, u >> 4);
  } else {
    write(record, PairOf(r, lane), 3, u);
    if constexpr (kBits == 3) write(record + kRecord, BitOf(r, lane), 1, u >> 2);
  }
}

template <int kBits>
int ReadCode(const std::byte* panel, int input, int lane) {
  const int r = input % 16;
  const std::byte* const record = panel + input / 16 * RecordBytes(kBits);
  const auto read = [](const std::byte* from, Place at, int mask) { return GetBits(from[at.byte], at.shift, mask); };
  if constexpr (kBits == 8) {
    return std::to_integer<int>(panel[int64_t{input / 4} * kRecord + 4 * lane + input % 4]) ^ 128;
  } else if constexpr (kBits >= 4) {
    const int low = read(record, NibbleOf(r, lane), 15);
    return kBits == 6 ? low | read(record + 2 * kRecord, PairOf(r, lane), 3) << 4 : low;
  } else {
    const int low = read(record, PairOf(r, lane), 3);
    return kBits == 3 ? low | read(record + kRecord, BitOf(r, lane), 1) << 2 : low;
  }
}

template <typename T>
T NumberAt(const std::byte* from, int64_t index) {
  T value;
  std::memcpy(&value, from + static_cast<int64_t>(sizeof(T)) * index, sizeof(T));
  return value;
}

template <typename T>
void PutNumber(std::byte* to, int64_t index, T value) {
  std::memcpy(to + static_cast<int64_t>(sizeof(T)) * index, &value, sizeof(T));
}

// Numbers and codes with one interface.
struct F32 {
  static int64_t At(int input, int lane) { return int64_t{input} * kPanelLanes + lane; }
  static void Write(std::byte* panel, int input, int lane, float value) { PutNumber(panel, At(input, lane), value); }
  static float Read(const std::byte* panel, int input, int lane) { return NumberAt<float>(panel, At(input, lane)); }
};
struct Bf16 {
  static int64_t At(int input, int lane) { return (int64_t{input / 2} * kPanelLanes + lane) * 2 + input % 2; }
  static void Write(std::byte* panel, int input, int lane, float value) {
    PutNumber(panel, At(input, lane), Bf16FromFloat(value));
  }
  static float Read(const std::byte* panel, int input, int lane) {
    return FloatFromBf16(NumberAt<uint16_t>(panel, At(input, lane)));
  }
};
template <int kBits>
struct Code {
  void Write(std::byte* panel, int input, int lane, float value) const {
    WriteCode<kBits>(panel, input, lane, static_cast<int>(value) + raised);
  }
  float Read(const std::byte* panel, int input, int lane) const {
    return static_cast<float>(ReadCode<kBits>(panel, input, lane) - raised);
  }

  int raised;
};
// Values of a grid: FP8 and lists.
template <int kBits>
struct Value {
  void Write(std::byte* panel, int input, int lane, float value) const {
    const uint8_t u = StoredCode(value, info);
    if constexpr (kBits == 8) {
      panel[input * kPanelLanes + lane] = std::byte(u);
    } else {
      WriteCode<kBits>(panel, input, lane, u);
    }
  }
  float Read(const std::byte* panel, int input, int lane) const {
    if constexpr (kBits == 8) return values[std::to_integer<size_t>(panel[input * kPanelLanes + lane])];
    return values[static_cast<size_t>(ReadCode<kBits>(panel, input, lane))];
  }

  const FormatInfo& info;
  const std::array<float, 256>& values;
};

// Calls body with what reads and writes the format's values.
template <typename Body>
void WithValues(const Format& format, const Body& body) {
  const int bits = Info(format).bits;
  const auto codes = [&]<int kBits>() {
    IsInteger(format) ? body(Code<kBits>{RaisedBy(format)}) : body(Value<kBits>{Info(format), StoredValues(format)});
  };
  if (bits == 32) return body(F32());
  if (bits == 16) return body(Bf16());
  if (bits == 8) return codes.template operator()<8>();
  if (bits == 6) return codes.template operator()<6>();
  if (bits == 4) return codes.template operator()<4>();
  if (bits == 3) return codes.template operator()<3>();
  TARE_CHECK(bits == 2);
  codes.template operator()<2>();
}

// A byte's scale: E8M0's exponent is f32's, E4M3's is 120 lower: y is twice the value, or, below 2^-6, 2^-6 more.
float FromByte(ScaleType type, uint32_t x) {
  if (!IsTwoLevel(type)) return std::bit_cast<float>(std::max(x << 23, 1u << 22));  // 2^-127 is subnormal
  const auto y = std::bit_cast<float>((x << 20) + (121u << 23));
  return std::min(y - 0x1p-6f, y * 0.5f);
}

}  // namespace

int64_t PanelBytes(const Format& format, int64_t inputs) { return inputs * kPanelLanes * Info(format).bits / 8; }

void ReadPanel(Format format, const std::byte* panel, const PanelRun& run, int n, float* values) {
  WithValues(format, [&](const auto& value) {
    for (int i = 0; i < n; ++i)
      values[i] = value.Read(panel, run.input + i * run.input_step, run.lane + i * run.lane_step);
  });
}

void WritePanel(Format format, std::byte* panel, const PanelRun& run, const float* values, int n) {
  WithValues(format, [&](const auto& value) {
    for (int i = 0; i < n; ++i)
      value.Write(panel, run.input + i * run.input_step, run.lane + i * run.lane_step, values[i]);
  });
}

float PageScales::Get(const std::byte* from, int64_t index) const {
  if (held_ == HeldScales::kByte) return FromByte(format_.scale, std::to_integer<uint32_t>(from[index]));
  return held_ == HeldScales::kF16 ? FloatFromF16(NumberAt<uint16_t>(from, index)) : NumberAt<float>(from, index);
}

// Where scales are held in f16, f16 has `value` exactly.
void PageScales::Put(std::byte* to, int64_t index, float value) const {
  if (held_ == HeldScales::kByte) return PutNumber(to, index, StoredScale(value, format_.scale, 1.0f));
  held_ == HeldScales::kF16 ? PutNumber(to, index, F16FromFloat(value)) : PutNumber(to, index, value);
}

// The scale of a group, rounded as it is held.
GroupScale PageScales::GroupOf(Ends ends) const {
  if (held_ == HeldScales::kByte) return GroupScaleFor(ends, format_, LargestOfUnit(format_));
  if (held_ == HeldScales::kF32) return GroupScaleFor(ends, format_, ends.high);
  const float least = ends.low;
  if (format_.range == CodeRange::kMin) ends.low = FloatFromF16(F16AtMost(least));
  GroupScale group = GroupScaleFor(ends, format_, ends.high);
  const float scale = FloatFromF16(F16AtLeast(group.scale.scale));
  group.scale = {scale > 0 ? 1 / scale : 0.0f, scale};
  if (format_.range == CodeRange::kMean) group.origin = FloatFromF16(F16FromFloat(group.origin));
  if (format_.range == CodeRange::kZero) group.zero = std::nearbyint(std::max(-least, 0.0f) * group.scale.inv);
  return group;
}

void PageScales::Round(const float* values, int n, std::byte* scales, int64_t index, float* codes) const {
  const auto count = static_cast<size_t>(n);
  const FormatInfo& info = Info(format_);
  const bool by_largest = !HasMinima() && info.statistic == Statistic::kLargest;
  const Ends ends = clip_        ? Ends{-*clip_, *clip_}
                    : by_largest ? Ends{0.0f, AbsMax(values, count)}
                                 : EndsOf({values, count}, format_);
  const GroupScale group = GroupOf(ends);
  if (!clip_) Put(scales, index, group.scale.scale);
  if (HasMinima()) {
    const bool as_it_is = held_ == HeldScales::kF16 && format_.range == CodeRange::kZero;
    Put(scales, count_ + index, as_it_is ? group.zero : group.origin - group.zero * group.scale.scale);
  }
  if (!IsInteger(format_)) {
    std::transform(values, values + n, codes, [&](float x) { return RoundedIn(x, group, format_); });
    return;
  }
  const auto least = static_cast<float>(info.min_code), most = static_cast<float>(info.max_code);
  for (int i = 0; i < n; ++i) {  // RoundedIn
    const float code = ((values[i] - group.origin) * group.scale.inv + kToNearest) - kToNearest;
    codes[i] = std::clamp(code + group.zero, least, most);
  }
}

// As it was, but for what rounding alone needs.
GroupScale PageScales::At(const std::byte* scales, int64_t index) const {
  if (clip_) return GroupOf({-*clip_, *clip_});
  GroupScale group{.scale = {.inv = 0.0f, .scale = Get(scales, index)}};
  if (!HasMinima()) return group;
  const float beside = Get(scales, count_ + index);
  if (format_.range != CodeRange::kZero) {
    group.origin = beside;
  } else if (held_ == HeldScales::kF16) {
    group.zero = beside;
  } else if (group.scale.scale > 0) {  // two roundings of at most 255 are far below half a code
    group.zero = std::nearbyint(-beside / group.scale.scale);
  }
  return group;
}

void PageScales::Dequantize(const std::byte* scales, int64_t index, int n, float* values) const {
  const GroupScale group = At(scales, index);
  for (int i = 0; i < n; ++i) values[i] = ValueOf(values[i], group);
}

void PageScales::DequantizeEach(const std::byte* scales, int64_t first, int n, float* values) const {
  for (int i = 0; i < n; ++i) values[i] = ValueOf(values[i], At(scales, first + i));
}

void PageScales::Copy(std::byte* scales, int64_t index, const std::byte* from, int64_t from_index) const {
  if (clip_) return;
  Put(scales, index, Get(from, from_index));
  if (HasMinima()) Put(scales, count_ + index, Get(from, count_ + from_index));
}

PageScales::Numbers PageScales::Load(const std::byte* scales, int64_t first, int64_t n, float* memory) const {
  if (clip_) {
    std::fill_n(memory, n, GroupOf({-*clip_, *clip_}).scale.scale);
    return {memory, nullptr};
  }
  if (held_ == HeldScales::kF32) {
    const auto* begin = reinterpret_cast<const float*>(scales) + first;
    return {begin, HasMinima() ? begin + count_ : nullptr};
  }
  if (held_ == HeldScales::kByte) {
    const ScaleType type = format_.scale;
    for (int64_t i = 0; i < n; ++i) memory[i] = FromByte(type, std::to_integer<uint32_t>(scales[first + i]));
    return {memory, nullptr};
  }
  const auto* begin = reinterpret_cast<const uint16_t*>(scales) + first;
  FromF16(begin, static_cast<size_t>(n), memory);
  if (!HasMinima()) return {memory, nullptr};
  float* const minima = memory + n;
  FromF16(begin + count_, static_cast<size_t>(n), minima);
  for (int64_t i = 0; i < n && format_.range == CodeRange::kZero; ++i) minima[i] *= -memory[i];
  return {memory, minima};
}

}  // namespace tare
