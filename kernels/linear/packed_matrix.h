// SPDX-License-Identifier: Apache-2.0
// Quantized weights in memory as the integer kernels read them: panels of 64 outputs, with inputs in groups of 4
// neighbours (as u8 x s8 instructions take them) and no more bits than the format has. With u = code + 8 (int4) or code
// + 32 (int6), group g of a panel holds [64 outputs][4 inputs], 256 bytes once unpacked:
//
//   8 bits   256 bytes per group            the codes, signed
//   4 bits   256 bytes per two groups       u of group 2i | u of group 2i+1 << 4
//   6 bits   768 bytes per four groups      low four bits of u as for 4 bits (512 bytes), then
//                                           high two bits of groups 4i, 4i+1, 4i+2, 4i+3 in bits 0, 2, 4, 6
//
// Padding outputs and inputs have code 0. Weights on a grid (mxfp4) are stored as integer multiples of the grid's step
// (AsStepCodes, quant/format/format.h), of the group's in IF4; scales take the step in, so kernels see integers only.
//
// Codes of +zero and +min, 0 .. 2^b-1, become signed ones: u is the code itself. What a group's values have besides
// code * scale is its offset, one f32 rounded once from what the file holds:
//
//   +zero   offset = (2^(b-1) - zero) * scale
//   +min    offset = 2^(b-1) * scale + minimum      the product is exact
//
// A product of inputs x with such a group adds offset * sum(x) to scale * sum(code x).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "quant/base/aligned.h"
#include "quant/base/integers.h"
#include "quant/base/memory.h"
#include "quant/format/quantized_matrix.h"

namespace tare {

class PackedMatrix {
 public:
  static constexpr int64_t kPanel = 64;   // outputs
  static constexpr int64_t kRecord = 16;  // inputs of the largest record

  // Uses all threads. Throws Error for codes or scales that no quantizer writes, groups that are no multiple of kRecord
  // (unless one per row), a short last block, and formats whose values are not multiples of a step.
  explicit PackedMatrix(const QuantizedMatrix& matrix);

  // Whether the matrix's format and groups are accepted.
  static bool Takes(const QuantizedMatrix& matrix);

  Format format() const { return format_; }  // of the integers
  int64_t out() const { return out_; }
  int64_t in() const { return in_; }
  int64_t PaddedIn() const { return RoundUp(in_, kRecord); }
  int64_t Panels() const { return CeilDiv(out_, kPanel); }
  int64_t Groups() const { return groups_; }                    // scales per output
  int64_t GroupInputs() const { return PaddedIn() / groups_; }  // inputs that share a scale
  size_t PanelBytes() const { return static_cast<size_t>(PaddedIn() * kPanel) / 8 * static_cast<size_t>(bits_); }
  size_t Bytes() const { return codes_.size() + (scales_.size() + offsets_.size()) * sizeof(float); }

  const uint8_t* Codes(int64_t panel) const { return codes_.data() + static_cast<size_t>(panel) * PanelBytes(); }
  const float* Scales(int64_t panel) const { return scales_.data() + panel * groups_ * kPanel; }  // [group][64]
  // [group][64]; null if the values are code * scale.
  const float* Offsets(int64_t panel) const {
    return offsets_.size() == 0 ? nullptr : offsets_.data() + panel * groups_ * kPanel;
  }

  // A panel as signed bytes, [PaddedIn() / 4][64][4]: its place if stored so, else in scratch (64-aligned).
  const int8_t* Unpacked(int64_t panel, int8_t* scratch) const;
  // The sums of such a panel's codes over each `part` inputs, a divisor of GroupInputs(): [PaddedIn() / part][64] on a
  // boundary of 64 bytes. They are not stored: in groups of 32 they would take as much memory as the scales, and making
  // them reads the panel once more, which then meets up to 512 rows.
  void SumCodes(const int8_t* unpacked, int64_t part, int32_t* sums) const;

 private:
  void PackPanel(const QuantizedMatrix& matrix, float step, int64_t panel);

  Format format_;
  int bits_;
  int64_t out_, in_, groups_;
  AlignedBuffer<uint8_t> codes_{LargePages()};  // [panels, PanelBytes()]
  // [panels, groups, 64]; no offsets if the values are code * scale
  AlignedBuffer<float> scales_{LargePages()}, offsets_{LargePages()};
};

struct QuantizedProjection {
  const PackedMatrix* weight = nullptr;
  const float* bias = nullptr;  // [out] or null
  float* y = nullptr;           // [rows, out]
};

// Throws Error, starting with where, for null pointers, rows below 0 and weights of different inputs.
void CheckProjections(const char* where, const float* x, int64_t rows,
                      std::span<const QuantizedProjection> projections);

}  // namespace tare
