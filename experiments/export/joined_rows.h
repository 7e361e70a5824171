// SPDX-License-Identifier: Apache-2.0
// Rows of several tensors, or of several matrices of codes, below each other: the parts of a fused tensor
// (experiments/model/linear/weights.h) as other programs store it.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "quant/base/aligned.h"
#include "quant/file/safetensors.h"
#include "quant/format/quantized_matrix.h"

namespace tare {

// Of tensors of one type and width. The memory holds the result.
TensorView JoinedTensor(const std::string& name, std::span<const TensorView> parts, AlignedBuffer<std::byte>& memory);

// Owns its codes, to which the view points: it may be moved, not copied.
class JoinedMatrix {
 public:
  JoinedMatrix(JoinedMatrix&&) = default;
  JoinedMatrix& operator=(JoinedMatrix&&) = default;

  // Empty unless all have one format, width, group, rotation and f32 per tensor.
  static std::optional<JoinedMatrix> Of(std::span<const QuantizedMatrix* const> parts);

  const QuantizedMatrix& view() const { return view_; }

 private:
  JoinedMatrix() = default;

  std::vector<uint8_t> codes_, scale_codes_, zeros_;
  std::vector<float> scales_, minima_;
  QuantizedMatrix view_;
};

}  // namespace tare
