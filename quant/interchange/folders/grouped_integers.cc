// SPDX-License-Identifier: Apache-2.0
// Which integers stand for the parts of a GroupedMatrix, if any do. With `step` 1, or 1/2 for the values of E2M1, and
// `raised` what makes the lowest code 0 where groups have zero points of their own:
//
//   code = value / step + raised       scale = stored scale * step
//   zero = zero value + raised         minimum = added
//
// All of it is exact: values, zero points and differences are small integers, and a scale is halved only where no bit
// is lost. With a g_idx, codes stand in the order of their groups. None exist where a value is no multiple of a step
// (FP8, NF4), groups have different numbers of columns (a short last group), or codes take more than 8 bits.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "quant/interchange/folders/grouped_matrix.h"

namespace tare {
namespace {

constexpr std::initializer_list<CodeRange> kSigned{CodeRange::kOwn, CodeRange::kFull};

// The ends of the values of a matrix's codes, or of its zero points.
struct Extent {
  float least = std::numeric_limits<float>::infinity(), most = -std::numeric_limits<float>::infinity();

  void Add(float value) {
    least = std::min(least, value);
    most = std::max(most, value);
  }
};

// Columns that share a scale; 0 where groups have different numbers of them.
int64_t GroupColumns(const GroupedParts& parts) {
  if (parts.groups == 1) return parts.in;
  if (parts.in % parts.columns != 0) return 0;
  std::vector<int64_t> count(static_cast<size_t>(parts.groups), 0);
  for (const int32_t group : parts.group_of) ++count[static_cast<size_t>(group)];
  const bool equal = std::ranges::all_of(count, [&](int64_t n) { return n == parts.columns; });
  return parts.group_of.empty() || equal ? parts.columns : 0;
}

// Columns by their groups, within a group in their own order; empty where they stand so already.
std::vector<int32_t> OrderOf(const GroupedParts& parts) {
  if (parts.groups == 1 || std::ranges::is_sorted(parts.group_of)) return {};
  std::vector<int32_t> order(parts.group_of.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](int32_t column) { return parts.group_of[static_cast<size_t>(column)]; });
  return order;
}

std::span<const float> ValuesOfCodes(const GroupedParts& parts) {
  return std::span(parts.values).first(size_t{1} << parts.codes.bits);
}

bool AreMultiples(std::span<const float> values, float step) {
  return std::ranges::all_of(values, [step](float v) { return std::isfinite(v) && std::trunc(v / step) == v / step; });
}

bool ScalesCanBeHalved(const GroupedParts& parts) {
  for (int64_t row = 0; row < parts.out; row += parts.scales.rows) {
    for (int64_t g = 0; g < parts.groups; ++g) {
      const float scale = parts.scales.At(row, g);
      if (scale / 2 * 2 != scale) return false;
    }
  }
  return true;
}

GroupedIntegers Made(const GroupedParts& parts, Format format, int64_t group, float step, float raised) {
  GroupedIntegers made{.form = {format, group}, .step = step, .raised = raised, .order = OrderOf(parts)};
  for (size_t code = 0; code < ValuesOfCodes(parts).size(); ++code)
    made.codes[code] = parts.values[code] / step + raised;
  return made;
}

}  // namespace

std::optional<GroupedIntegers> IntegersIn(const GroupedParts& parts) {
  const int64_t group = GroupColumns(parts);
  const std::span<const float> values = ValuesOfCodes(parts);
  const float step = AreMultiples(values, 1.0f) ? 1.0f : 0.5f;
  if (group == 0 || !AreMultiples(values, step) || (step != 1.0f && !ScalesCanBeHalved(parts))) return std::nullopt;
  Extent codes;
  for (const float value : values) codes.Add(value / step);
  const auto made = [&](std::optional<Format> format, float raised) -> std::optional<GroupedIntegers> {
    if (!format) return std::nullopt;
    return Made(parts, *format, group, step, raised);
  };
  if (parts.added) {
    if (parts.zeros || codes.least < 0) return std::nullopt;
    return made(NarrowestFormat(0.0f, codes.most, {CodeRange::kMin}), 0.0f);
  }
  if (!parts.zeros) return made(NarrowestFormat(codes.least, codes.most, kSigned), 0.0f);
  if (step != 1.0f) return std::nullopt;
  Extent zeros;
  for (int64_t row = 0; row < parts.out; ++row) {
    for (int64_t g = 0; g < parts.groups; ++g) zeros.Add(parts.zero_values[parts.zeros->At(row, g)]);
  }
  if (zeros.least == zeros.most) {  // symmetric
    if (const auto format = NarrowestFormat(codes.least - zeros.least, codes.most - zeros.least, kSigned))
      return made(format, -zeros.least);
  }
  const float lowest = std::min(codes.least, zeros.least);
  return made(NarrowestFormat(0.0f, std::max(codes.most, zeros.most) - lowest, {CodeRange::kZero}), -lowest);
}

}  // namespace tare
