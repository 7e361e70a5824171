// SPDX-License-Identifier: Apache-2.0
#include "quant/format/quantized_matrix.h"

#include <cmath>
#include <limits>

#include "quant/base/error.h"
#include "quant/format/pack.h"
#include "quant/format/stored_code.h"

namespace tare {

float QuantizedMatrix::ScaleOf(int64_t row, int64_t g) const {
  const int64_t at = row * Groups() + g;
  return scale_codes == nullptr ? scales[at] : ScaleValues(Info(format).scale)[scale_codes[at]] * of_tensor;
}

size_t QuantizedMatrix::RowBytes() const { return PackedBytes(format, static_cast<size_t>(in)); }

size_t QuantizedMatrix::Bytes() const {
  const ScaleType type = Info(format).scale;
  const size_t of_scale = type == ScaleType::kF32 ? sizeof(float) : 1;
  return static_cast<size_t>(out) * (RowBytes() + static_cast<size_t>(Groups()) * of_scale) +
         (IsTwoLevel(type) ? sizeof(float) : 0);
}

int64_t GroupOf(Granularity granularity, int64_t in) {
  return granularity.kind == Granularity::Kind::kGroup ? granularity.n : in;
}

void CheckShape(const QuantizedMatrix& m, const std::string& where) {
  const FormatInfo& info = Info(m.format);
  if (!HasCodes(m.format) || (IsInteger(m.format) && info.min_code == 0))
    Fail("{}: got format {}, expected one of signed values", where, info.name);
  if (m.out < 1 || m.in < 1 || m.in > std::numeric_limits<int64_t>::max() / 8 / m.out)
    Fail("{}: got {} x {} weights, expected at least one and no more than fit in memory", where, m.out, m.in);
  if (info.block > 0 && m.group != info.block)
    Fail("{}: got groups of {}, expected {}, {}'s block", where, m.group, info.block, info.name);
  if (info.block == 0 && (m.group < 1 || m.in % m.group != 0))
    Fail("{}: got groups of {} in rows of {} weights, expected a divisor; try another group, or channel", where,
         m.group, m.in);
}

// Weights near the end of f32 are rounded up to a scale whose largest code is infinite.
static void CheckScales(const QuantizedMatrix& m, int64_t row, const std::string& where) {
  const float largest = Info(m.format).Largest();
  for (int64_t g = 0; g < m.Groups(); ++g) {
    const float scale = m.ScaleOf(row, g);
    if (!(scale >= 0 && std::isfinite(scale * largest)))
      Fail(
          "{}: row {}, group {}: got scale {}, expected 0 or more, and at most f32's largest value by code {}; try "
          "smaller weights",
          where, row, g, scale, largest);
  }
}

void DequantizeRow(const QuantizedMatrix& m, int64_t row, float* y, const std::string& where) {
  CheckScales(m, row, where);
  try {
    Unpack<float>(m.format, {m.codes + static_cast<size_t>(row) * m.RowBytes(), m.RowBytes()},
                  {y, static_cast<size_t>(m.in)});
  } catch (const Error& error) {
    Fail("{}: row {}: {}", where, row, error.what());
  }
  for (int64_t g = 0; g < m.Groups(); ++g) {
    const float scale = m.ScaleOf(row, g);
    for (int64_t i = g * m.group; i < m.GroupEnd(g); ++i) y[i] *= scale;
  }
}

QuantizedMatrixBuffer::QuantizedMatrixBuffer(Format format, int64_t out, int64_t in, int64_t group, float tensor_absmax)
    : tensor_absmax_(tensor_absmax), view_{.format = format, .out = out, .in = in, .group = group} {
  CheckShape(view_, "quantized matrix");
  const ScaleType type = Info(format).scale;
  if (IsTwoLevel(type)) view_.of_tensor = TensorScale(tensor_absmax, Info(format).grid, type);
  codes_.Reset(static_cast<size_t>(out) * view_.RowBytes());
  view_.codes = codes_.data();
  if (type == ScaleType::kF32) {
    scales_.Reset(static_cast<size_t>(out * view_.Groups()));
    view_.scales = scales_.data();
  } else {
    scale_codes_.Reset(static_cast<size_t>(out * view_.Groups()));
    view_.scale_codes = scale_codes_.data();
  }
}

Scale QuantizedMatrixBuffer::SetScale(int64_t row, int64_t g, float absmax) {
  const Scale scale = ScaleFor(absmax, view_.format, tensor_absmax_);
  const int64_t at = row * view_.Groups() + g;
  if (view_.scale_codes == nullptr)
    scales_.data()[at] = scale.scale;
  else
    scale_codes_.data()[at] = StoredScale(scale.scale, Info(view_.format).scale, view_.of_tensor);
  return scale;
}

}  // namespace tare
