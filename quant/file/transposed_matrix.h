// SPDX-License-Identifier: Apache-2.0
// One of the matrices that a checkpoint stores as one tensor [count, in, out], as gpt-oss does its experts', seen as
// [out, in].
#pragma once

#include <functional>
#include <mutex>
#include <string>

#include "quant/file/safetensors.h"
#include "quant/interchange/foreign_matrix.h"

namespace tare {

class TransposedMatrix : public ForeignMatrix {
 public:
  // Of f32, bf16 or f16; throws Error for others. release gives back the memory under the tensor, which outlives this.
  TransposedMatrix(const TensorView& tensor, int64_t index, std::function<void()> release);

  void Row(int64_t row, float* y) const override { Rows(row, 1, y); }
  // Neighbours stand side by side in the tensor: many cost little more to read than one.
  void Rows(int64_t first, int64_t count, float* y) const override;
  // Looked through once for what is not finite.
  std::optional<Columns> columns() const override;
  std::string scheme() const override { return std::string(Name(tensor_.dtype)); }
  bool HasCodes() const override { return false; }
  int64_t bytes() const override { return static_cast<int64_t>(tensor_.bytes.size()) / tensor_.shape[0]; }
  void Release() const override { release_(); }

 private:
  TensorView tensor_;
  int64_t first_;  // value of the matrix in the tensor
  std::function<void()> release_;
  mutable std::once_flag looked_through_;
};

}  // namespace tare
