// SPDX-License-Identifier: Apache-2.0
// A weight matrix W [out, in] of a checkpoint: values in place, Tare's or another tool's codes, or values made of them.
// It gives f32 rows, says whether it has integers, becomes a product's operand; a rule may round it to nearest.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <span>
#include <string>

#include "kernels/linear/projector.h"
#include "quant/algorithms/round_to_nearest.h"
#include "quant/base/aligned.h"
#include "quant/format/quantized_matrix.h"
#include "quant/plan/plan.h"

namespace tare {

struct WeightMatrix {
  WeightMatrix() = default;
  WeightMatrix(const DenseMatrix& dense) : out(dense.out), in(dense.in), values(dense) {}
  explicit WeightMatrix(const QuantizedMatrix* codes) : out(codes->out), in(codes->in), quantized(codes) {}
  explicit WeightMatrix(const ForeignMatrix* matrix) : out(matrix->out()), in(matrix->in()), foreign(matrix) {}

  // Whether a product of several rows takes the values as they stand.
  bool IsReady(Math math) const {
    return values.data != nullptr && (math == Math::kF32 || values.type == WeightType::kBf16);
  }
  // Whether it has Tare's codes or another tool's as integers (quant/format/quantized_matrix.h) in groups for kernels.
  bool HasIntegers() const;

  int64_t out = 0, in = 0;
  DenseMatrix values;                          // no data: codes alone
  const QuantizedMatrix* quantized = nullptr;  // what codes it is of: Tare's,
  const ForeignMatrix* foreign = nullptr;      // or another tool's
};

// Row `row` of W as f32: y holds W.in values. Throws Error, starting with `where`, for invalid codes or scales.
void RowAsFloat(const WeightMatrix& matrix, int64_t row, float* y, const std::string& where = "weights");
// Rows from `first` on.
void RowsAsFloat(const WeightMatrix& matrix, int64_t first, int64_t count, float* y, const std::string& where);

// Makes memory a matrix of f32 or bf16, row by row: calls fill(row, values of the row) from several threads.
DenseMatrix FillMatrix(AlignedBuffer<char>& memory, WeightType type, int64_t out, int64_t in,
                       const std::function<void(int64_t row, float* values)>& fill);

// W in the memory, in the type of factors. Throws Error, starting with `where`, for invalid codes or scales.
DenseMatrix InFloat(const WeightMatrix& matrix, Math math, AlignedBuffer<char>& memory, const std::string& where);

// Adds to y [rows, out] what a matrix's low-rank branch makes of x [rows, in], in f32.
void AddBranch(const QuantizedMatrix& matrix, const float* x, int64_t rows, float* y);

// A matrix stored by columns, in place for products of several rows; else nullopt. Throws Error if it is not finite.
std::optional<DenseMatrix> StoredColumns(const WeightMatrix& matrix, const Projector& projector);

// The rows of `in` weights that a rule rounds: those that `read` reads, rotated if the rule has +hadamard.
ReadRow RowsToRound(const Rule& rule, int64_t in, ReadRow read);

// An empty matrix for a rule's codes; reads the rows that are rounded if the format has an f32 per tensor.
QuantizedMatrixBuffer MatrixFor(const Rule& rule, int64_t out, int64_t in, const ReadRow& read);

// Rounds a matrix to nearest. importance: W.in factors of squared errors, for +mse without +hadamard; empty: all 1.
QuantizedMatrixBuffer QuantizeByRule(const WeightMatrix& weight, const Rule& rule, const std::string& where,
                                     std::span<const float> importance = {});

// Rounding's loss, for relative errors of checkpoints and GGUF files: sums of squares of errors and of values.
struct Squares {
  double error = 0, size = 0;
};

// Both of one length. In lanes of which compilers make vectors; the order of additions is fixed.
inline Squares SquaresOf(std::span<const float> values, std::span<const float> rounded) {
  constexpr size_t kLanes = 8;
  std::array<double, kLanes> error{}, size{};
  const auto add = [&](size_t lane, size_t i) {
    const double value = values[i], off = value - double{rounded[i]};
    error[lane] += off * off;
    size[lane] += value * value;
  };
  const size_t whole = values.size() / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) add(lane, i + lane);
  }
  for (size_t i = whole; i < values.size(); ++i) add(0, i);
  return {std::accumulate(error.begin(), error.end(), 0.0), std::accumulate(size.begin(), size.end(), 0.0)};
}

}  // namespace tare
