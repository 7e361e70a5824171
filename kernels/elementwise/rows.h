// SPDX-License-Identifier: Apache-2.0
// Elementwise steps of a Transformer layer in f32, each on one contiguous row of n values. SIMD is chosen at run time
// (Highway). Sums inside a row follow the vector width, so the last bits may differ between instruction sets, but never
// between numbers of threads. Rows need no alignment. A parameter named `row` is changed in place.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/format/format.h"
#include "quant/format/hadamard.h"
#include "quant/format/pack.h"
#include "quant/format/round.h"

namespace tare {

// y = x / sqrt(mean(x^2) + eps), times weight[n] unless weight is null. Source: Zhang and Sennrich 2019, eq. 4.
void RmsNorm(const float* x, const float* weight, float eps, size_t n, float* y);
// y = (x - mean(x)) / sqrt(mean((x - mean(x))^2) + eps) * weight[n] + bias[n]; y may be x (Ba, Kiros, Hinton 2016).
void LayerNorm(const float* x, const float* weight, const float* bias, float eps, size_t n, float* y);

// Rotary embedding of one head, split-half pairs (i, i + d/2) as transformers' rotate_half; cosine and sine hold d/2.
void RotateHalf(float* row, const float* cosine, const float* sine, size_t d);
// As RotateHalf, for interleaved pairs (2i, 2i + 1), as the authors of the Differential Transformer rotate them.
void RotateInterleaved(float* row, const float* cosine, const float* sine, size_t d);

// gate = gate * sigmoid(gate) * up. Source: Shazeer 2020, SwiGLU.
void SwiGlu(float* gate, const float* up, size_t n);

// gate = gelu(gate) * up, gelu(x) = x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2. Source: Shazeer 2020, GeGLU;
// Hendrycks and Gimpel 2016 for the approximation by tanh.
void GeGluTanh(float* gate, const float* up, size_t n);

// gate = (w[0] N(gate^3) + w[1] N(gate^2) + w[2] N(gate) + bias) * up, N(x) = x / sqrt(mean(x^2) + eps).
// Source: arXiv 2411.03884, PolyNorm.
struct PolyNormTerms {
  const float* w = nullptr;  // [3]
  float bias = 0;
  float eps = 1e-6f;
};
void PolyNormGlu(float* gate, const float* up, const PolyNormTerms& terms, size_t n);

// row = row (1 + erf(row / sqrt(2))) / 2, to within 1e-7 |row| plus f32's own rounding. Source: Hendrycks and Gimpel
// 2016; erf by Abramowitz and Stegun 7.1.26.
void Gelu(float* row, size_t n);
void QuickGelu(float* row, size_t n);           // row = row sigmoid(1.702 row). Source: openai/CLIP, model.py
void Sigmoid(float* row, size_t n);             // row = 1 / (1 + exp(-row))
void SoftCap(float* row, float cap, size_t n);  // row = cap tanh(row / cap)

// row = exp(row - max(row)) / sum, n >= 1. At least one value must be above -inf (a causal query sees itself).
void Softmax(float* row, size_t n);
// As Softmax, with a sink: one more value in the maximum and the sum only. Returns its share. -inf: no sink.
float SoftmaxWithSink(float* row, float sink, size_t n);

// log(sum(exp(row))); the sum is in double, as a vocabulary has a million terms.
double LogSumExp(const float* row, size_t n);

void AddTo(float* row, const float* x, size_t n);                         // row += x
void MultiplyBy(float* row, const float* x, size_t n);                    // row *= x
void ScaleInto(const float* x, float factor, size_t n, float* y);         // y = x * factor
void SubtractScaled(float* row, const float* x, float factor, size_t n);  // row -= factor * x

// Largest |x|, 0 for none. Infinity for NaN and infinities, so that the caller can refuse the row.
float AbsMax(const float* x, size_t n);

// row = code(row) * scale, exactly as quant/format/round.h does it; for a format with a grid, the grid's value * scale.
void FakeQuantize(float* row, size_t n, Scale scale, Format format);
// row = (code(row) - zero point) * scale, as quant/format/round.h does it.
void FakeQuantize(float* row, size_t n, const ZeroPointScale& scale, Format format);

// Rounds to the nearest bfloat16, ties to even.
void ToBf16(const float* x, size_t n, uint16_t* y);
// As ToBf16, for two rows, interleaved: y[2i] from a[i], y[2i+1] from b[i].
void ToBf16Pairs(const float* a, const float* b, size_t n, uint16_t* y);
// The n values of a row of codes, rounded as NibbleRow says.
void FromNibbles(const NibbleRow& x, size_t n, float* y);
// Finite f16 as f32, exactly.
void FromF16(const uint16_t* x, size_t n, float* y);

// Rows rotated by a Hadamard matrix in f32, for kernels that round them: the sums of Hadamard::Rotate
// (quant/format/hadamard.h), which adds in double. With B rows of Paley's matrix (1 for powers of two), runs of r
// channels, a value errs by at most (B + log2(r / B) + 3) 2^-24 times its run's magnitudes' sum / sqrt(r). x may be y.
//
// y = x R, and y = x R^T: one row of rotation.size() values.
void RotateRow(const Hadamard& rotation, const float* x, float* y);
void RotateRowBack(const Hadamard& rotation, const float* x, float* y);

// y = x R for dense rows. Uses all threads.
void RotateRows(const Hadamard& rotation, const float* x, int64_t rows, float* y);

}  // namespace tare
