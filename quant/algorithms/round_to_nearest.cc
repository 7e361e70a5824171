// SPDX-License-Identifier: Apache-2.0
// See round_to_nearest.h.
#include "quant/algorithms/round_to_nearest.h"

#include <algorithm>
#include <vector>

#include "quant/base/error.h"
#include "quant/format/pack.h"
#include "quant/format/quantize.h"
#include "quant/format/round.h"

namespace tare {
namespace {

// Adding it rounds |x| <= 2^22 to the nearest integer, ties to even, as std::nearbyint does; compilers make vectors of
// this.
constexpr float kRoundingMagic = 12582912.0f;

void RoundGroup(const float* values, int64_t n, float inv, Format format, int8_t* codes) {
  const auto low = static_cast<float>(Info(format).min_code), high = static_cast<float>(Info(format).max_code);
  for (int64_t i = 0; i < n; ++i) {
    const float scaled = std::min(std::max(values[i] * inv, low), high);
    codes[i] = static_cast<int8_t>(static_cast<int>((scaled + kRoundingMagic) - kRoundingMagic));
  }
}

double SquaredError(const float* values, int64_t n, Scale scale, Format format) {
  const auto low = static_cast<float>(Info(format).min_code), high = static_cast<float>(Info(format).max_code);
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    const float scaled = std::min(std::max(values[i] * scale.inv, low), high);
    const double error = double{values[i]} - double{(scaled + kRoundingMagic) - kRoundingMagic} * double{scale.scale};
    sum += error * error;
  }
  return sum;
}

// clip_of(values of a group) is the magnitude that becomes the group's largest code.
template <typename ClipOf>
void RoundRow(const float* row, ClipOf clip_of, QuantizedMatrixBuffer& matrix, int64_t index) {
  const QuantizedMatrix& m = matrix.view();
  if (const auto bad = FirstNotFinite({row, static_cast<size_t>(m.in)}))
    Fail("weights, row {}: got {} at {}, expected finite values", index, row[*bad], *bad);
  thread_local std::vector<int8_t> codes;
  codes.resize(static_cast<size_t>(m.in));
  for (int64_t g = 0; g < m.Groups(); ++g) {
    const float* values = row + g * m.group;
    const Scale scale = ScaleFor(clip_of(values), m.format);
    matrix.Scales(index)[g] = scale.scale;
    RoundGroup(values, m.group, scale.inv, m.format, codes.data() + g * m.group);
  }
  Pack<int8_t>(m.format, codes, {matrix.Codes(index), m.RowBytes()});
}

}  // namespace

float ChooseClip(const float* values, int64_t n, Format format, ClipChoice choice) {
  const float absmax = AbsMax({values, static_cast<size_t>(n)});
  if (choice == ClipChoice::kAbsmax || absmax < kSmallestAbsmax) return absmax;
  constexpr int kSteps = 32;
  float best = absmax;
  double least = SquaredError(values, n, ScaleFor(absmax, format), format);
  for (int i = 1; i < kSteps; ++i) {
    const float clip = absmax * (1.0f - static_cast<float>(i) / 64.0f);
    const double error = SquaredError(values, n, ScaleFor(clip, format), format);
    if (error < least) {
      least = error;
      best = clip;
    }
  }
  return best;
}

void RoundRowToNearest(const float* row, ClipChoice choice, QuantizedMatrixBuffer& matrix, int64_t index) {
  const QuantizedMatrix& m = matrix.view();
  RoundRow(row, [&](const float* values) { return ChooseClip(values, m.group, m.format, choice); }, matrix, index);
}

void RoundRowWithClip(const float* row, float clip, QuantizedMatrixBuffer& matrix, int64_t index) {
  RoundRow(row, [clip](const float*) { return clip; }, matrix, index);
}

}  // namespace tare
