// SPDX-License-Identifier: Apache-2.0
#include "quant/algorithms/round_to_nearest.h"

#include <algorithm>
#include <vector>

#include "quant/base/error.h"
#include "quant/format/pack.h"
#include "quant/format/quantize.h"
#include "quant/format/round.h"

namespace tare {
namespace {

// Adding it rounds |x| <= 2^22 to the nearest integer, ties to even, like std::nearbyint; compilers vectorize this.
constexpr float kRoundingMagic = 12582912.0f;

// Rounds to the codes' values before the scale (for integers, the codes).
void RoundGroup(const float* values, int64_t n, float inv, const FormatInfo& info, float* rounded) {
  if (info.max_code == 0) {
    for (int64_t i = 0; i < n; ++i) rounded[i] = Nearest(values[i] * inv, info.grid);
    return;
  }
  const auto low = static_cast<float>(info.min_code), high = static_cast<float>(info.max_code);
  for (int64_t i = 0; i < n; ++i) {
    const float scaled = std::min(std::max(values[i] * inv, low), high);
    rounded[i] = (scaled + kRoundingMagic) - kRoundingMagic;
  }
}

double SquaredError(const float* values, int64_t n, Scale scale, const FormatInfo& info) {
  thread_local std::vector<float> rounded;
  rounded.resize(static_cast<size_t>(n));
  RoundGroup(values, n, scale.inv, info, rounded.data());
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double error = double{values[i]} - double{rounded[i]} * double{scale.scale};
    sum += error * error;
  }
  return sum;
}

// clip_of(values of a group, how many) is the magnitude that becomes the group's largest code.
template <typename ClipOf>
void RoundRow(const float* row, ClipOf clip_of, QuantizedMatrixBuffer& matrix, int64_t index) {
  const QuantizedMatrix& m = matrix.view();
  if (const auto bad = FirstNotFinite({row, static_cast<size_t>(m.in)}))
    Fail("weights, row {}: got {} at {}, expected finite values", index, row[*bad], *bad);
  thread_local std::vector<float> rounded;
  rounded.resize(static_cast<size_t>(m.in));
  for (int64_t g = 0; g < m.Groups(); ++g) {
    const int64_t first = g * m.group, n = m.GroupEnd(g) - first;
    const Scale scale = matrix.SetScale(index, g, clip_of(row + first, n));
    RoundGroup(row + first, n, scale.inv, Info(m.format), rounded.data() + first);
  }
  Pack<float>(m.format, rounded, {matrix.Codes(index), m.RowBytes()});
}

}  // namespace

float ChooseClip(const float* values, int64_t n, Format format, ClipChoice choice) {
  const float absmax = MagnitudeOf({values, static_cast<size_t>(n)}, Info(format).statistic);
  if (choice == ClipChoice::kAbsmax || absmax < kSmallestAbsmax) return absmax;
  constexpr int kSteps = 32;
  float best = absmax;
  double least = SquaredError(values, n, ScaleFor(absmax, format), Info(format));
  for (int i = 1; i < kSteps; ++i) {
    const float clip = absmax * (1.0f - static_cast<float>(i) / 64.0f);
    const double error = SquaredError(values, n, ScaleFor(clip, format), Info(format));
    if (error < least) {
      least = error;
      best = clip;
    }
  }
  return best;
}

void RoundRowToNearest(const float* row, ClipChoice choice, QuantizedMatrixBuffer& matrix, int64_t index) {
  const QuantizedMatrix& m = matrix.view();
  RoundRow(row, [&](const float* values, int64_t n) { return ChooseClip(values, n, m.format, choice); }, matrix, index);
}

void RoundRowWithClip(const float* row, float clip, QuantizedMatrixBuffer& matrix, int64_t index) {
  RoundRow(row, [clip](const float*, int64_t) { return clip; }, matrix, index);
}

}  // namespace tare
