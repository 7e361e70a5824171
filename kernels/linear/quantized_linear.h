// SPDX-License-Identifier: Apache-2.0
// Linear layers in integers: y = x W^T (+ bias), x quantized as it comes (W8A8, W6A8, W4A8 and narrower activations), a
// scale a token or a static one for all, W packed (packed_matrix.h).
//
//   S[r, n, g] = sum over the inputs of group g of xcode[r, i] wcode[n, i]      exact, 32 bits
//   y[r, n]    = (sum over g of S[r, n, g] wscale[n, g]) xscale[r] + bias[n]    f32, groups in order
//
// The product is u8 x s8 (TileProduct), with xcode + 128 and 128 sum(wcode) taken off again. 32 bits hold 255 x 127 x
// 66311 inputs. Bit-equal on any number of threads; S on any instruction set.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>

#include "kernels/linear/packed_matrix.h"
#include "quant/base/aligned.h"
#include "quant/format/format.h"

namespace tare {

inline constexpr int64_t kLargestGroup = 66311;

// How activations become codes.
struct TokenFormat {
  Format format = Format::kInt8;  // int8, int6 or int4
  std::optional<float> clip;      // the magnitude that becomes the largest code; nothing: the largest of each token
  friend auto operator<=>(const TokenFormat&, const TokenFormat&) = default;
};

struct QuantizedProjection {
  const PackedMatrix* weight = nullptr;
  const float* bias = nullptr;  // [out] or null
  float* y = nullptr;           // [rows, out]
};

class QuantizedLinear {
 public:
  // All projections share `in`. Throws Error where a value of x is not finite, naming
  // its row, and where sums could overflow.
  void Project(const float* x, int64_t rows, const TokenFormat& activation,
               std::span<const QuantizedProjection> projections);

 private:
  AlignedBuffer<uint8_t> codes_;  // [rows, stride]
  AlignedBuffer<float> scales_;   // [rows]
};

}  // namespace tare
