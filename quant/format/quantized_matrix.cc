// SPDX-License-Identifier: Apache-2.0
// See quantized_matrix.h.
#include "quant/format/quantized_matrix.h"

#include <cmath>
#include <limits>
#include <vector>

#include "quant/base/error.h"
#include "quant/format/pack.h"

namespace tare {

size_t QuantizedMatrix::RowBytes() const { return PackedBytes(format, static_cast<size_t>(in)); }

int64_t GroupOf(Granularity granularity, int64_t in) {
  return granularity.kind == Granularity::Kind::kGroup ? granularity.n : in;
}

void CheckShape(const QuantizedMatrix& m, const std::string& where) {
  if (m.format != Format::kInt8 && m.format != Format::kInt6 && m.format != Format::kInt4)
    Fail("{}: got format {}, expected int8, int6 or int4", where, Info(m.format).name);
  if (m.out < 1 || m.in < 1 || m.in > std::numeric_limits<int64_t>::max() / 8 / m.out)
    Fail("{}: got {} x {} weights, expected at least one and no more than fit in memory", where, m.out, m.in);
  if (m.group < 1 || m.in % m.group != 0)
    Fail("{}: got groups of {} in rows of {} weights, expected a divisor", where, m.group, m.in);
}

// Weights near the end of f32 are rounded up to a scale whose largest code is infinite.
static void CheckScales(const QuantizedMatrix& m, int64_t row, const std::string& where) {
  const int largest_code = Info(m.format).max_code;
  for (int64_t g = 0; g < m.Groups(); ++g) {
    const float scale = m.scales[row * m.Groups() + g];
    if (!(scale >= 0 && std::isfinite(scale * static_cast<float>(largest_code))))
      Fail(
          "{}: row {}, group {}: got scale {}, expected 0 or more, and at most f32's largest value by code {}; try "
          "smaller weights",
          where, row, g, scale, largest_code);
  }
}

void DequantizeRow(const QuantizedMatrix& m, int64_t row, float* y, const std::string& where) {
  thread_local std::vector<int8_t> codes;
  codes.resize(static_cast<size_t>(m.in));
  const float* scales = m.scales + row * m.Groups();
  CheckScales(m, row, where);
  try {
    Unpack<int8_t>(m.format, {m.codes + static_cast<size_t>(row) * m.RowBytes(), m.RowBytes()}, codes);
  } catch (const Error& error) {
    Fail("{}: row {}: {}", where, row, error.what());
  }
  for (int64_t g = 0; g < m.Groups(); ++g) {
    for (int64_t i = g * m.group; i < (g + 1) * m.group; ++i) y[i] = static_cast<float>(codes[i]) * scales[g];
  }
}

QuantizedMatrixBuffer::QuantizedMatrixBuffer(Format format, int64_t out, int64_t in, int64_t group)
    : view_{.codes = nullptr, .scales = nullptr, .format = format, .out = out, .in = in, .group = group} {
  CheckShape(view_, "quantized matrix");
  codes_.Reset(static_cast<size_t>(out) * view_.RowBytes());
  scales_.Reset(static_cast<size_t>(out * view_.Groups()));
  view_.codes = codes_.data();
  view_.scales = scales_.data();
}

}  // namespace tare
