// SPDX-License-Identifier: Apache-2.0
// A weight matrix W [out, in] as codes and scales: value = value of the code * scale; of integers with a zero point,
// (code - zero) * scale, or with a minimum, code * scale + minimum (round.h). Each scale belongs to `group`
// neighbouring inputs of one output; one scale per output ("channel") is a group of all inputs. Blocks that a format
// defines need not divide a row: the last one may be short, as if padded with zeros. Codes may be of W R, with R a
// Hadamard rotation of the inputs (hadamard.h).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "quant/base/aligned.h"
#include "quant/format/format.h"
#include "quant/format/round.h"

namespace tare {

class Hadamard;

// A view; codes are stored as in pack.h, row by row.
struct QuantizedMatrix {
  const uint8_t* codes = nullptr;        // [out][RowBytes()]
  const float* scales = nullptr;         // [out][Groups()]; or, if the format's scales are formats themselves,
  const uint8_t* scale_codes = nullptr;  // [out][Groups()], pack.h, times of_tensor
  float of_tensor = 1;                   // the f32 per tensor, if the format has one
  const uint8_t* zeros = nullptr;        // [out][Groups()], of +zero
  const float* minima = nullptr;         // [out][Groups()], of +min
  Format format = Format::kInt8;         // not u8, u6 or u4
  int64_t out = 0, in = 0;
  int64_t group = 0;  // divides in, or is the format's block
  // R, if the codes are of W R (a plan's +hadamard): a row's values are those of its codes times R^T.
  const Hadamard* rotation = nullptr;

  int64_t Groups() const { return (in + group - 1) / group; }
  int64_t GroupEnd(int64_t g) const { return std::min((g + 1) * group, in); }
  float ScaleOf(int64_t row, int64_t g) const;
  float ZeroOf(int64_t row, int64_t g) const { return zeros == nullptr ? 0.0f : zeros[row * Groups() + g]; }
  float MinimumOf(int64_t row, int64_t g) const { return minima == nullptr ? 0.0f : minima[row * Groups() + g]; }
  size_t RowBytes() const;
  size_t Bytes() const;  // of codes, scales, zero points and minima, also where there are none yet
};

// Values that share a scale for a weight's granularity: for channel and tensor all of `in` (a tensor's one scale is
// repeated for each output).
int64_t GroupOf(Granularity granularity, int64_t in);

// Throws Error unless format, sizes and group fit together. Does not read codes or scales.
void CheckShape(const QuantizedMatrix& matrix, const std::string& where);

// Throws Error for a part that the format has and the matrix does not point to: codes, scales, zero points, minima.
void CheckData(const QuantizedMatrix& matrix, const std::string& where);

// Throws Error, naming `where`, row and group, for a scale that is NaN, or overflows f32 times the format's largest
// value, for a zero point that is no code, and for a minimum from which a value overflows. Scales of Tare's own
// quantizers are 0 or more; other tools have negative ones, and all that reads codes takes them.
void CheckScales(const QuantizedMatrix& matrix, int64_t row, const std::string& where);

// Row `row` as f32: y holds `in` values, all finite. Throws Error as CheckScales does, and for a code that the format
// does not have.
void DequantizeRow(const QuantizedMatrix& matrix, int64_t row, float* y, const std::string& where = "weights");

// A matrix that owns its memory, which is not initialised.
class QuantizedMatrixBuffer {
 public:
  QuantizedMatrixBuffer() = default;
  // tensor_absmax: the largest magnitude, if the format has an f32 per tensor. rotation: of what will be rounded.
  QuantizedMatrixBuffer(Format format, int64_t out, int64_t in, int64_t group, float tensor_absmax = 0,
                        const Hadamard* rotation = nullptr);
  // The rows of the parts below each other, which must be alike but for their number.
  explicit QuantizedMatrixBuffer(std::span<const QuantizedMatrix* const> parts);

  const QuantizedMatrix& view() const { return view_; }
  float tensor_absmax() const { return tensor_absmax_; }
  uint8_t* Codes(int64_t row) { return codes_.data() + static_cast<size_t>(row) * view_.RowBytes(); }
  // Stores and returns the scale of a group with these ends, and its zero point or minimum. Throws Error for a range
  // beyond f32, and a row or group that there is not.
  GroupScale SetScale(int64_t row, int64_t g, Ends ends);
  float* Scales(int64_t row) { return scales_.data() + row * view_.Groups(); }  // if they are f32
  uint8_t* Zeros(int64_t row) { return zeros_.data() + row * view_.Groups(); }  // if the format has them
  float* Minima(int64_t row) { return minima_.data() + row * view_.Groups(); }  // likewise
  size_t code_bytes() const { return codes_.size(); }
  size_t scale_count() const { return scales_.size(); }

 private:
  AlignedBuffer<uint8_t> codes_;
  AlignedBuffer<float> scales_;
  AlignedBuffer<uint8_t> scale_codes_;
  AlignedBuffer<uint8_t> zeros_;
  AlignedBuffer<float> minima_;
  float tensor_absmax_ = 0;
  QuantizedMatrix view_;
};

}  // namespace tare
