// SPDX-License-Identifier: Apache-2.0
#include "quant/format/integer_form.h"

#include <array>

namespace tare {
namespace {

constexpr std::array kNarrowFirst{Format::kInt2, Format::kInt3, Format::kInt4, Format::kInt6, Format::kInt8};

bool Covers(Format format, float least, float most) {
  const FormatInfo& info = Info(format);
  return static_cast<float>(info.min_code) <= least && most <= static_cast<float>(info.max_code);
}

}  // namespace

std::optional<Format> SignedFormat(float least, float most) {
  for (const Format base : kNarrowFirst) {
    for (const Format& format : {base, WithRange(base, CodeRange::kFull)}) {
      if (Covers(format, least, most)) return format;
    }
  }
  return std::nullopt;
}

std::optional<Format> RangedFormat(float most, CodeRange range) {
  for (const Format base : kNarrowFirst) {
    if (const Format format = WithRange(base, range); Covers(format, 0.0f, most)) return format;
  }
  return std::nullopt;
}

}  // namespace tare
