// SPDX-License-Identifier: Apache-2.0
// A weight matrix W [out, in] as codes and scales: value = what the code stands for * scale. A scale belongs to `group`
// neighbouring inputs of one output; one scale per output ("channel") is the group of all its inputs. Blocks that a
// format defines need not divide a row: its last one is short, as if zeros filled it up.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "quant/base/aligned.h"
#include "quant/format/format.h"
#include "quant/format/granularity.h"
#include "quant/format/round.h"

namespace tare {

// A view; the codes lie as pack.h stores them, row by row.
struct QuantizedMatrix {
  const uint8_t* codes = nullptr;        // [out][RowBytes()]
  const float* scales = nullptr;         // [out][Groups()], or of a format whose scales are formats themselves
  const uint8_t* scale_codes = nullptr;  // [out][Groups()], stored_code.h, times
  float of_tensor = 1;                   // the f32 per tensor, where the format has one
  Format format = Format::kInt8;         // none of unsigned codes
  int64_t out = 0, in = 0;
  int64_t group = 0;  // divides in, or is the format's block

  int64_t Groups() const { return (in + group - 1) / group; }
  int64_t GroupEnd(int64_t g) const { return std::min((g + 1) * group, in); }
  float ScaleOf(int64_t row, int64_t g) const;
  size_t RowBytes() const;
  size_t Bytes() const;  // of codes and scales
};

// Values that share a scale under a weight's granularity: channel and tensor take all of `in` (a tensor's one scale is
// repeated for each output).
int64_t GroupOf(Granularity granularity, int64_t in);

// Throws Error unless format, sizes and group fit together. Looks at no code and no scale.
void CheckShape(const QuantizedMatrix& matrix, const std::string& where);

// Row `row` as f32: y holds `in` values, all of them finite. Throws Error, naming `where` and the row, for a code that
// the format does not have, and for a scale that is negative, NaN, or beyond f32 times the format's largest value.
void DequantizeRow(const QuantizedMatrix& matrix, int64_t row, float* y, const std::string& where = "weights");

// One that owns its memory, not initialised.
class QuantizedMatrixBuffer {
 public:
  QuantizedMatrixBuffer() = default;
  // tensor_absmax: the largest magnitude, where the format has an f32 per tensor.
  QuantizedMatrixBuffer(Format format, int64_t out, int64_t in, int64_t group, float tensor_absmax = 0);

  const QuantizedMatrix& view() const { return view_; }
  uint8_t* Codes(int64_t row) { return codes_.data() + static_cast<size_t>(row) * view_.RowBytes(); }
  // Keeps and returns the scale of a group whose largest magnitude is `absmax`.
  Scale SetScale(int64_t row, int64_t g, float absmax);
  float* Scales(int64_t row) { return scales_.data() + row * view_.Groups(); }  // where they are f32
  size_t code_bytes() const { return codes_.size(); }
  size_t scale_count() const { return scales_.size(); }

 private:
  AlignedBuffer<uint8_t> codes_;
  AlignedBuffer<float> scales_;
  AlignedBuffer<uint8_t> scale_codes_;
  float tensor_absmax_ = 0;
  QuantizedMatrix view_;
};

}  // namespace tare
