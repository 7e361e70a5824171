// SPDX-License-Identifier: Apache-2.0
#include "quant/format/quantized_matrix.h"

#include <cmath>
#include <limits>
#include <utility>

#include "quant/base/float16.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "quant/format/hadamard.h"
#include "quant/format/pack.h"

namespace tare {
namespace {

void RotateRowBack(const QuantizedMatrix& m, int64_t row, float* y, const std::string& where) {
  m.rotation->RotateBack(y, y);
  if (!std::all_of(y, y + m.in, [](float value) { return std::isfinite(value); }))
    Fail("{}: row {}: got values beyond f32 from codes of rotated weights; try smaller weights", where, row);
}

// y += the row of the branch, term after term.
void AddBranchRow(const QuantizedMatrix& m, int64_t row, float* y, const std::string& where) {
  for (int64_t k = 0; k < m.branch.rank; ++k) {
    const float up = FloatFromBf16(m.branch.up[row * m.branch.rank + k]);
    const uint16_t* const down = m.branch.down + k * m.in;
    for (int64_t i = 0; i < m.in; ++i) y[i] += up * FloatFromBf16(down[i]);
  }
  if (!std::all_of(y, y + m.in, [](float value) { return std::isfinite(value); }))
    Fail("{}: row {}: got values beyond f32 with a low-rank branch; try smaller weights", where, row);
}

// As CheckShape, also for unsigned values.
void CheckSizes(const QuantizedMatrix& m, const std::string& where) {
  const FormatInfo& info = Info(m.format);
  if (!HasCodes(m.format)) Fail("{}: got format {}, expected one with codes", where, Name(m.format));
  if (info.bits == 1 || info.range == CodeRange::kMean)
    Fail("{}: got format {}, expected one of weights; try normal2", where, Name(m.format));
  if (m.out < 1 || m.in < 1 || m.in > std::numeric_limits<int64_t>::max() / 8 / m.out)
    Fail("{}: got {} x {} weights, expected at least one and no more than fit in memory", where, m.out, m.in);
  if (info.block > 0 && m.group != info.block)
    Fail("{}: got groups of {}, expected {}, {}'s block", where, m.group, info.block, Name(m.format));
  if (info.block == 0 && (m.group < 1 || m.in % m.group != 0))
    Fail("{}: got groups of {} in rows of {} weights, expected a divisor; try another group, or channel", where,
         m.group, m.in);
  if (m.rotation != nullptr && m.rotation->size() != m.in)
    Fail("{}: got a rotation of {} channels, expected {}", where, m.rotation->size(), m.in);
  if (m.group % info.together != 0)
    Fail("{}: got groups of {} in rows of {} weights, expected a multiple of {}, which share a code of {}", where,
         m.group, m.in, info.together, Name(m.format));
}

}  // namespace

float QuantizedMatrix::ScaleOf(int64_t row, int64_t g) const {
  const int64_t at = row * Groups() + g;
  return scale_codes == nullptr ? scales[at] : ScaleValues(format.scale)[scale_codes[at]] * of_tensor;
}

size_t QuantizedMatrix::RowBytes() const { return PackedBytes(format, static_cast<size_t>(in)); }

size_t QuantizedMatrix::Bytes() const {
  const ScaleType type = format.scale;
  const size_t of_scale = type == ScaleType::kF32 ? sizeof(float) : 1;
  const CodeRange range = format.range;
  const size_t of_offset = range == CodeRange::kZero ? 1 : range == CodeRange::kMin ? sizeof(float) : 0;
  return static_cast<size_t>(out) * (RowBytes() + static_cast<size_t>(Groups()) * (of_scale + of_offset)) +
         (IsTwoLevel(type) ? sizeof(float) : 0) + static_cast<size_t>(branch.rank * (out + in)) * sizeof(uint16_t);
}

int64_t GroupOf(Granularity granularity, int64_t in) {
  return granularity.kind == Granularity::Kind::kGroup ? granularity.n : in;
}

void CheckShape(const QuantizedMatrix& m, const std::string& where) {
  if (IsInteger(m.format) && Info(m.format).min_code == 0 && !HasOffset(m.format))
    Fail("{}: got format {}, expected one of signed values", where, Name(m.format));
  CheckSizes(m, where);
}

void CheckData(const QuantizedMatrix& m, const std::string& where) {
  CheckPointer(where, m.codes, m.out);
  if (m.scale_codes == nullptr) CheckPointer(where, m.scales, m.out);
  if (m.format.range == CodeRange::kZero) CheckPointer(where, m.zeros, m.out);
  if (m.format.range == CodeRange::kMin) CheckPointer(where, m.minima, m.out);
}

// Weights near the end of f32 are rounded up to a scale whose largest code is infinite. With a minimum a group's values
// rise or fall with the code, so the first and the last are its ends.
void CheckScales(const QuantizedMatrix& m, int64_t row, const std::string& where) {
  const FormatInfo& info = Info(m.format);
  const float largest = info.LargestCode();
  for (int64_t g = 0; g < m.Groups(); ++g) {
    const float scale = m.ScaleOf(row, g), minimum = m.MinimumOf(row, g);
    if (!std::isfinite(scale * largest))
      Fail("{}: row {}, group {}: got scale {}, expected at most f32's largest value by code {}; try smaller weights",
           where, row, g, scale, largest);
    if (m.ZeroOf(row, g) > largest)
      Fail("{}: row {}, group {}: got zero point {}, expected a code of {}, 0 to {}; try making the file again", where,
           row, g, m.ZeroOf(row, g), Name(m.format), info.max_code);
    if (!std::isfinite(minimum) || !std::isfinite(scale * largest + minimum))
      Fail(
          "{}: row {}, group {}: got minimum {} and scale {}, expected finite values of all codes; try smaller weights",
          where, row, g, minimum, scale);
  }
}

void UnpackRow(const QuantizedMatrix& m, int64_t row, std::span<float> values) {
  Unpack<float>(m.format, {m.codes + static_cast<size_t>(row) * m.RowBytes(), m.RowBytes()}, values);
  const FormatInfo& info = Info(m.format);
  if (info.grid.evenly.empty()) return;
  const std::array<float, 256>& all = StoredValues(m.format);
  for (int64_t g = 0; g < m.Groups(); ++g) {
    for (int64_t i = g * m.group; m.IsEven(row, g) && i < m.GroupEnd(g); ++i)
      values[i] = all[16u + StoredCode(values[i], info)];
  }
}

void DequantizeRow(const QuantizedMatrix& m, int64_t row, float* y, const std::string& where) {
  CheckRange(where, "row", row, 0, m.out - 1);
  CheckData(m, where);
  CheckScales(m, row, where);
  try {
    UnpackRow(m, row, {y, static_cast<size_t>(m.in)});
  } catch (const Error& error) {
    Fail("{}: row {}: {}", where, row, error.what());
  }
  for (int64_t g = 0; g < m.Groups(); ++g) {
    const GroupScale group{{0.0f, m.ScaleOf(row, g)}, m.ZeroOf(row, g), m.MinimumOf(row, g)};
    float* const first = y + g * m.group;
    const int64_t n = m.GroupEnd(g) - g * m.group;
    if (HasOffset(m.format)) {
      for (int64_t i = 0; i < n; ++i) first[i] = ValueOf(first[i], group);
    } else {
      for (int64_t i = 0; i < n; ++i) first[i] *= group.scale.scale;  // keeps the sign of 0
    }
  }
  if (m.rotation != nullptr) RotateRowBack(m, row, y, where);
  if (m.branch.rank > 0) AddBranchRow(m, row, y, where);
}

QuantizedMatrixBuffer::QuantizedMatrixBuffer(Format format, int64_t out, int64_t in, int64_t group, float tensor_absmax,
                                             const Hadamard* rotation)
    : tensor_absmax_(tensor_absmax),
      view_{.format = format, .out = out, .in = in, .group = group, .rotation = rotation} {
  CheckSizes(view_, "quantized matrix");
  const ScaleType type = format.scale;
  if (IsTwoLevel(type)) view_.of_tensor = TensorScale(tensor_absmax, Info(format).grid, type);
  codes_.Reset(static_cast<size_t>(out) * view_.RowBytes());
  view_.codes = codes_.data();
  const auto groups = static_cast<size_t>(out * view_.Groups());
  const auto take = [groups](auto& buffer, auto& place) {
    buffer.Reset(groups);
    place = buffer.data();
  };
  type == ScaleType::kF32 ? take(scales_, view_.scales) : take(scale_codes_, view_.scale_codes);
  if (format.range == CodeRange::kZero) take(zeros_, view_.zeros);
  if (format.range == CodeRange::kMin) take(minima_, view_.minima);
}

QuantizedMatrixBuffer::QuantizedMatrixBuffer(std::span<const QuantizedMatrix* const> parts)
    : QuantizedMatrixBuffer(
          parts[0]->format,
          std::ranges::fold_left(parts, int64_t{0}, [](int64_t out, const auto* part) { return out + part->out; }),
          parts[0]->in, parts[0]->group, 0, parts[0]->rotation) {
  view_.of_tensor = parts[0]->of_tensor;
  const int64_t bytes = static_cast<int64_t>(view_.RowBytes()), groups = view_.Groups();
  for (int64_t row = 0; const QuantizedMatrix* const part : parts) {
    const auto copy = [&](const auto* from, int64_t width, auto& to) {
      if (from != nullptr) std::copy_n(from, part->out * width, to.data() + row * width);
    };
    copy(part->codes, bytes, codes_);
    copy(part->scales, groups, scales_);
    copy(part->scale_codes, groups, scale_codes_);
    copy(part->zeros, groups, zeros_);
    copy(part->minima, groups, minima_);
    row += part->out;
  }
}

GroupScale QuantizedMatrixBuffer::SetScale(int64_t row, int64_t g, Ends ends) {
  CheckRange("weights", "row", row, 0, view_.out - 1);
  CheckRange("weights", "group", g, 0, view_.Groups() - 1);
  const GroupScale group = GroupScaleFor(ends, view_.format, tensor_absmax_);
  const Scale& scale = group.scale;
  const int64_t at = row * view_.Groups() + g;
  if (!std::isfinite(scale.scale))
    Fail("weights, row {}, group {}: got values from {} to {}, expected a range that fits in f32; try smaller weights",
         row, g, ends.low, ends.high);
  if (view_.scale_codes == nullptr)
    scales_.data()[at] = scale.scale;
  else
    scale_codes_.data()[at] =
        StoredScale(scale.scale, view_.format.scale, view_.of_tensor) | static_cast<uint8_t>(scale.inv < 0 ? 128 : 0);
  if (view_.zeros != nullptr) zeros_.data()[at] = static_cast<uint8_t>(group.zero);
  if (view_.minima != nullptr) minima_.data()[at] = group.origin;
  return group;
}

void QuantizedMatrixBuffer::SetBranch(std::vector<uint16_t> up, std::vector<uint16_t> down) {
  const int64_t rank = std::ssize(down) / view_.in;
  CheckEqual("low-rank branch", "values of down", std::ssize(down), rank * view_.in);
  CheckEqual("low-rank branch", "values of up", std::ssize(up), view_.out * rank);
  up_ = std::move(up), down_ = std::move(down);
  view_.branch = {.up = up_.data(), .down = down_.data(), .rank = rank};
}

std::optional<Format> NarrowestFormat(float least, float most, std::initializer_list<CodeRange> ranges) {
  for (const Format base : {Format::kInt2, Format::kInt3, Format::kInt4, Format::kInt6, Format::kInt8}) {
    for (const CodeRange range : ranges) {
      const Format format = WithRange(base, range);
      const FormatInfo& info = Info(format);
      if (static_cast<float>(info.min_code) <= least && most <= static_cast<float>(info.max_code)) return format;
    }
  }
  return std::nullopt;
}

void ForeignMatrix::Integers(int64_t, const IntegerRow&) const { TARE_CHECK(false); }

QuantizedMatrixBuffer IntegersOf(const ForeignMatrix& matrix) {
  const std::optional<IntegerForm> form = matrix.integers();
  TARE_CHECK(form.has_value());
  QuantizedMatrixBuffer made(form->format, matrix.out(), matrix.in(), form->group);
  const QuantizedMatrix& view = made.view();
  constexpr int64_t kRows = 32;  // neighbours, which may share words of the file: on one thread
  ParallelForBlocks(matrix.out(), kRows, [&](int64_t first, int64_t rows) {
    std::vector<float> codes(static_cast<size_t>(matrix.in()));
    for (int64_t row = first; row < first + rows; ++row) {
      matrix.Integers(row, {.codes = codes.data(),
                            .scales = made.Scales(row),
                            .zeros = view.zeros == nullptr ? nullptr : made.Zeros(row),
                            .minima = view.minima == nullptr ? nullptr : made.Minima(row)});
      Pack<float>(view.format, codes, {made.Codes(row), view.RowBytes()});
    }
  });
  return made;
}

}  // namespace tare
