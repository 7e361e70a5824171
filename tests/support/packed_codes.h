// SPDX-License-Identifier: Apache-2.0
// What is wrong with packed Q, K and V of integer attention against quant/format/round.h, one value at a time, in the
// layouts of packing.h: "" or the first that differs.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/attention/integer/packing.h"
#include "kernels/attention/row_block.h"
#include "quant/format/round.h"
#include "tests/support/wrong.h"

namespace tare {

// x - mean of one row, its scale, and its codes. mean: or null.
struct CodedRow {
  CodedRow(const float* x, const float* mean, int width, Format format) {
    float absmax = 0;
    for (int i = 0; i < width; ++i) absmax = std::max(absmax, std::abs(mean == nullptr ? x[i] : x[i] - mean[i]));
    scale = ScaleFor(absmax, format);
    for (int i = 0; i < width; ++i) codes.push_back(CodeOf(mean == nullptr ? x[i] : x[i] - mean[i], scale.inv, format));
  }
  Scale scale;
  std::vector<int> codes;
};

// As PackQueries takes them; codes and scales: what it wrote.
inline std::string WrongQueries(const HeadsView<const float>& q, int head, int64_t first, int count, Format format,
                                const float* smooth, const uint8_t* codes, const float* scales) {
  const int d4 = RoundUp(q.width, 4);
  std::string wrong;
  for (int r = 0; r < count && wrong.empty(); ++r) {
    const CodedRow want(q.Row(first + r, head), smooth, q.width, format);
    wrong = WrongValue("scale of row", r, scales[r], want.scale.scale, 0);
    for (int i = 0; i < d4 && wrong.empty(); ++i)
      wrong =
          WrongValue(Formatted("row {}, code", r), i, codes[r * d4 + i], 128 + (i < q.width ? want.codes[i] : 0), 0);
  }
  return wrong;
}

// A tile of 64 keys from key `first` on, of which those after the last are zeros.
inline std::string WrongKeys(const HeadsView<const float>& k, int head, int64_t first, Format format,
                             const float* smooth, const int8_t* tile, const int32_t* offsets, const float* scales) {
  std::string wrong;
  for (int key = 0; key < 64 && wrong.empty(); ++key) {
    const bool exists = first + key < k.tokens;
    const int column = ColumnOfKey(key);
    const CodedRow row(k.Row(exists ? first + key : 0, head), smooth, k.width, format);
    int sum = 0;
    for (int i = 0; i < RoundUp(k.width, 4); ++i) {
      const int want = exists && i < k.width ? row.codes[i] : 0;
      if (wrong.empty())
        wrong = WrongValue(Formatted("key {}, code", key), i, tile[(i / 4 * 64 + column) * 4 + i % 4], want, 0);
      sum += want;
    }
    if (wrong.empty()) wrong = WrongValue("offset of key", key, offsets[column], -128 * sum, 0);
    if (wrong.empty()) wrong = WrongValue("scale of key", key, scales[column], exists ? row.scale.scale : 0.0f, 0);
  }
  return wrong;
}

// One tile of V with its own absmax [columns]; sums: what PackValueTile made of `before` in each.
inline std::string WrongValueTile(const HeadsView<const float>& v, int head, int64_t tile, Format format,
                                  const float* smooth, const float* absmax, const int8_t* codes, const int32_t* sums,
                                  int before) {
  const int64_t first = tile * 64, end = std::min(v.tokens, first + 64);
  const auto value = [&](int64_t t, int i) { return v.Row(t, head)[i] - (smooth == nullptr ? 0.0f : smooth[i]); };
  std::string wrong;
  for (int i = 0; i < RoundUp(v.width, 64) && wrong.empty(); ++i) {
    float largest = 0;
    for (int64_t t = first; t < end && i < v.width; ++t) largest = std::max(largest, std::abs(value(t, i)));
    wrong = WrongValue("absmax of column", i, absmax[i], largest, 0);
    int sum = before;
    for (int key = 0; key < 64; ++key) {
      const bool exists = i < v.width && first + key < end;
      const int want = exists ? CodeOf(value(first + key, i), ScaleFor(largest, format).inv, format) : 0;
      const int got = codes[i / 64 * 4096 + (key / 4 * 64 + i % 64) * 4 + key % 4];
      if (wrong.empty()) wrong = WrongValue(Formatted("key {}, column", key), i, got, want, 0);
      sum += want;
    }
    if (wrong.empty()) wrong = WrongValue("sum of column", i, sums[i], sum, 0);
  }
  return wrong;
}

}  // namespace tare
