// SPDX-License-Identifier: Apache-2.0
// A weight matrix W [out, in] as a checkpoint has it: values in place, Tare's codes, another tool's, or values that
// were made of codes. It gives rows of f32, says whether integers stand for it, and becomes what a product reads.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "kernels/linear/projector.h"
#include "quant/base/aligned.h"
#include "quant/format/foreign_matrix.h"
#include "quant/format/quantized_matrix.h"

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
  // Whether it is of Tare's codes, or integers stand for another tool's (quant/format/foreign_matrix.h) in groups
  // that the integer kernels take.
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
// Calls fill(first row, count, values of these rows) for some rows at a time.
DenseMatrix FillRows(AlignedBuffer<char>& memory, WeightType type, int64_t out, int64_t in,
                     const std::function<void(int64_t first, int64_t count, float* values)>& fill);

// W in the memory, in the type of factors. Throws Error, starting with `where`, for invalid codes or scales.
DenseMatrix InFloat(const WeightMatrix& matrix, Math math, AlignedBuffer<char>& memory, const std::string& where);

// A matrix that is stored by columns, in place, where products of several rows take it so; else nullopt. Throws Error
// for values that are not finite.
std::optional<DenseMatrix> StoredColumns(const WeightMatrix& matrix, const Projector& projector);

}  // namespace tare
