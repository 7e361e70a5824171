// SPDX-License-Identifier: Apache-2.0
// Panels of the cache (kernels/cache/page_layout.h) times some vectors: decoding's logits (lanes are keys, inputs
// channels) and outputs (lanes channels, inputs keys). Codes are unpacked in registers, once for two vectors.
//
//   y[lane] += sum over inputs of panel[input][lane] x[input]                               f32, bf16
//   y[lane] += lane_scales[lane] * sum over inputs of code[input][lane] weighted[input]     other grids; in f32
//   y[lane] += scale * lane_scales[lane] * sum over inputs of code[input][lane] (128 high[input] + low[input])
//                                                                                        integers; each plane exact
//
// Codes with minima are not negative. The vector's integers are off by a part of its largest magnitude, a product by as
// much times its code. So products with minima count code - h, h the middle code: a value is (code - h) x scale +
// centre, centre = minimum + h x scale. Where scales are the lanes', centres multiply the vector's sum in f32 (its
// integers' is off, a centre may be large); else they add one number to all lanes, the sum of x[input] centre[input].
//
// Beside integers the vector's are 15 bits wide, as in kernels/linear/one_token.h: off by at most half a 16256th of its
// largest magnitude, so that what decoding adds to the cache's own rounding is nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/attention/heads.h"
#include "kernels/cache/page_layout.h"
#include "kernels/product/read_ahead.h"

namespace tare {

// A vector beside a panel and the lanes that it adds to.
struct PanelFactor {
  const float* x = nullptr;         // [inputs], of f32 and bf16
  const float* weighted = nullptr;  // [inputs], of other grids than integers', or as Panels::weights says; null: x
  const int8_t *high = nullptr, *low = nullptr;  // [inputs], of integers, with scale and the sums of both
  float scale = 0;
  // [panels][64], or of one panel [groups of inputs][64]; aligned as y, of codes: each sum times its own; null: 1
  const float* lane_scales = nullptr;
  const float* lane_minima = nullptr;  // likewise, beside lane_scales; null: none
  int32_t high_sum = 0, low_sum = 0;
  float sum = 0;       // of x, beside lane_minima
  float beside = 0;    // for every lane, of codes: what the inputs' centres add
  float* y = nullptr;  // [panels][64], aligned to 64 bytes
};

// Panels one after the other.
struct Panels {
  const Format& format;  // outlives this
  const std::byte* first;
  int64_t inputs;  // of each that count: a multiple of 16
  int64_t count = 1;
  int64_t bytes = 0;                 // from one to the next
  int begin = 0, end = kPanelLanes;  // the lanes of each that are added to: 32 or 64, from a multiple of it
  int64_t behind = 0;             // bytes of scales between them and the next head's, which are asked for as panels are
  int64_t group = kLargestWidth;  // inputs that share a lane's scale, of grids: a multiple of 16
  // In formats with blocks each 16 lanes may have their own factor: weighted [panels][4][64], of 64 inputs at most.
  enum class Weights { kOfAll, kOfQuarters } weights = Weights::kOfAll;
};

inline constexpr int kLargestPlaneCode = 127 * 128;

// x [count], times weights [count] unless null, as planes of the factor; count: multiple of 16, memory 64-aligned.
// Values are finite. Sets scale and sums, `sum` that of the products, the same bits on every instruction set.
void ToPlanes(const float* x, const float* weights, int64_t count, int8_t* high, int8_t* low, PanelFactor& factor);

// As ToPlanes, of integers; of others the products in f32. memory [count], aligned to 64 bytes.
void ToFactor(const Format& format, const float* x, const float* weights, int64_t count, float* memory,
              PanelFactor& factor);

// What the inputs' centres add, of x, scales and minima [count], as above; the same bits on every instruction set.
float CentreSum(Format format, const float* x, const float* scales, const float* minima, int64_t count);

// hint: for what lies behind what is read.
void PanelProduct(const Panels& panels, std::span<const PanelFactor> factors, ReadHint hint);

}  // namespace tare
