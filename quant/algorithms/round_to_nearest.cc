// SPDX-License-Identifier: Apache-2.0
#include "quant/algorithms/round_to_nearest.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "quant/base/integers.h"
#include "quant/base/message.h"
#include "quant/format/grid.h"
#include "quant/format/pack.h"
#include "quant/format/round.h"

namespace tare {
namespace {

void RoundToLattice(const float* values, int64_t n, float inv, float* rounded) {
  for (int64_t i = 0; i < n; i += kLatticeWidth) {
    float scaled[kLatticeWidth];
    for (int64_t j = 0; j < kLatticeWidth; ++j) scaled[j] = values[i + j] * inv;
    NearestLatticePoint(scaled, rounded + i);
  }
}

// Rounds to code values before the scale, RoundedIn of each bit for bit. Clamping first is the same: bounds are whole.
void RoundGroup(const float* values, int64_t n, const GroupScale& group, const FormatInfo& info, float* rounded) {
  const float inv = group.scale.inv, zero = group.zero, origin = group.origin;
  if (info.together > 1) return RoundToLattice(values, n, inv, rounded);
  if (info.max_code == 0) {
    for (int64_t i = 0; i < n; ++i) rounded[i] = NearestTimes(values[i] - origin, inv, info.grid);
    return;
  }
  const float low = static_cast<float>(info.min_code) - zero, high = static_cast<float>(info.max_code) - zero;
  for (int64_t i = 0; i < n; ++i) {
    const float scaled = std::min(std::max((values[i] - origin) * inv, low), high);
    rounded[i] = NearestInteger(scaled) + zero;
  }
}

double SquaredError(const float* values, int64_t n, const GroupScale& group, const FormatInfo& info,
                    const float* importance) {
  thread_local std::vector<float> rounded;
  rounded.resize(static_cast<size_t>(n));
  RoundGroup(values, n, group, info, rounded.data());
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double steps = double{rounded[i]} - double{group.zero};
    const double error = double{values[i]} - (steps * double{group.scale.scale} + double{group.origin});
    sum += (importance == nullptr ? 1.0 : double{importance[i]}) * error * error;
  }
  return sum;
}

Ends Shrunk(Ends ends, float factor, CodeRange range) {
  if (range != CodeRange::kMin) return {ends.low * factor, ends.high * factor};
  const float cut = (ends.high - ends.low) * (1.0f - factor) / 2;
  return {ends.low + cut, ends.high - cut};
}

}  // namespace

// In double: the two often have equal errors, which products in f32 would tell apart.
float BlockEnd(const float* values, int64_t n, const Format& format, float clip, float tensor_absmax) {
  const float other = format.scale == ScaleType::kFourOverSix      ? 1.5f * clip
                      : format.scale == ScaleType::kTwoLevelSigned ? -clip
                                                                   : clip;
  if (other == clip || tensor_absmax < kSmallestAbsmax) return clip;
  const Grid& grid = Info(format).grid;
  const double largest = double{LargestBlockScale(format.scale)} * double{grid.largest};
  const auto error_of = [&](float end) {
    const TwoLevels levels = TwoLevelsOf(std::fabs(end), tensor_absmax, grid, format.scale);
    const float inv = std::copysign(levels.Inverse(), end);
    const double step = double{levels.of_block} * double{tensor_absmax} / largest;
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) {
      const double error = double{NearestTimes(values[i], inv, grid)} * step - double{values[i]};
      sum += error * error;
    }
    return sum;
  };
  return error_of(other) < error_of(clip) ? other : clip;
}

void RoundInBlocksOfRow(std::span<float> row, const Format& format) {
  const FormatInfo& info = Info(format);
  const float absmax = AbsMax(row), of_row = TensorScale(absmax, info.grid, format.scale);
  if (absmax < kSmallestAbsmax) return std::ranges::fill(row, 0.0f), void();
  const auto block = static_cast<size_t>(info.block);
  for (size_t begin = 0; begin < row.size(); begin += block) {
    const std::span<float> values = row.subspan(begin, std::min(block, row.size() - begin));
    const Scale exact = ScaleTo(info.grid.largest, AbsMax(values));
    const float read = Nearest(exact.scale / of_row, kE4M3) * of_row;
    for (float& x : values) x = Nearest(x * exact.inv, info.grid) * read;
  }
}

Ends ChooseEnds(const float* values, int64_t n, const Format& format, ClipChoice choice, float tensor_absmax,
                const float* importance) {
  const FormatInfo& info = Info(format);
  Ends widest = EndsOf({values, static_cast<size_t>(n)}, format);
  if (IsTwoLevel(format.scale)) {
    const float end = BlockEnd(values, n, format, widest.high, tensor_absmax);
    widest = {-end, end};
  }
  if (choice == ClipChoice::kAbsmax || widest.high - widest.low < kSmallestAbsmax) return widest;
  constexpr int kSteps = 32;
  const auto error_of = [&](Ends ends) {
    return SquaredError(values, n, GroupScaleFor(ends, format, tensor_absmax), info, importance);
  };
  Ends best = widest;
  double least = error_of(widest);
  for (int i = 1; i < kSteps; ++i) {
    const Ends ends = Shrunk(widest, 1.0f - static_cast<float>(i) / 64.0f, info.range);
    const double error = error_of(ends);
    if (error < least) least = error, best = ends;
  }
  return best;
}

GroupEnds EndsBy(ClipChoice choice, const Format& format, float tensor_absmax) {
  return [=](int64_t, int64_t, const float* values, int64_t n) {
    return ChooseEnds(values, n, format, choice, tensor_absmax);
  };
}

void RoundedValues(const float* values, int64_t n, const GroupScale& group, const Format& format, float* rounded) {
  RoundGroup(values, n, group, Info(format), rounded);
  for (int64_t i = 0; i < n; ++i) rounded[i] = ValueOf(rounded[i], group);
}

void RoundRowToNearest(const float* row, ClipChoice choice, QuantizedMatrixBuffer& matrix, int64_t index) {
  RoundRowToNearest(row, EndsBy(choice, matrix.view().format, matrix.tensor_absmax()), matrix, index);
}

void RoundRowToNearest(const float* row, const GroupEnds& ends, QuantizedMatrixBuffer& matrix, int64_t index) {
  const QuantizedMatrix& m = matrix.view();
  CheckRange("weights", "row", index, 0, m.out - 1);
  CheckPointer("weights", row, m.in);
  if (const auto bad = FirstNotFinite({row, static_cast<size_t>(m.in)}))
    Fail("weights, row {}: got {} at {}, expected finite values", index, row[*bad], *bad);
  thread_local std::vector<float> rounded;
  rounded.resize(static_cast<size_t>(m.in));
  for (int64_t g = 0; g < m.Groups(); ++g) {
    const int64_t first = g * m.group, n = m.GroupEnd(g) - first;
    const GroupScale group = matrix.SetScale(index, g, ends(index, g, row + first, n));
    RoundGroup(row + first, n, group, Info(m.format), rounded.data() + first);
  }
  Pack<float>(m.format, rounded, {matrix.Codes(index), m.RowBytes()});
}

}  // namespace tare
